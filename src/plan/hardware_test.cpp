#include "plan/hardware.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace sextant {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_hardware(text, "mine.toml");
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Config);
    return error.what();
  }
  return "accepted";
}

constexpr const char* kMine = R"(schema = 1
name = "Mine"
[gpu]
bf16 = 100
memory_gb = 16
memory_tb_s = 1
power_w = 300
[node]
link_gb_s = 100
[network]
nic_gb_s = 10
)";

TEST(Hardware, AnH100NeedsTwoHundredNinetyFiveFlopsPerByte) {
  DiskStorage storage;
  EXPECT_NEAR(ridge_point(find_hardware(storage, "H100")), 295, 1);
}

TEST(Hardware, NamesAndAliasesOfAnyCaseAreFound) {
  DiskStorage storage;
  EXPECT_EQ(find_hardware(storage, "h100").name, "H100-80GB-SXM");
  EXPECT_EQ(find_hardware(storage, "B200-SXM").name, "B200-180GB-SXM");
  EXPECT_EQ(find_hardware(storage, "H100-96GB-HBM2e-500W (Grand Teton, 2.4TB/s)").power, 500);
  EXPECT_TRUE(find_hardware(storage, "GB200").assumed.empty());
}

TEST(Hardware, AnUnknownMemberOfAFamilyIsTakenForItsPlainOneAndSaysSo) {
  DiskStorage storage;
  const Hardware found = find_hardware(storage, "H100-PCIe");
  EXPECT_EQ(found.name, "H100-80GB-SXM");
  ASSERT_EQ(found.assumed.size(), 1u);
  EXPECT_NE(found.assumed[0].find("'H100-PCIe' is not known"), std::string::npos);
}

TEST(Hardware, ANameThatResemblesNoneIsRefused) {
  DiskStorage storage;
  EXPECT_THROW(find_hardware(storage, "abacus"), Error);
}

TEST(Hardware, AllGpusOfTheListAreThereAndUnvalidatedOnesAreLabelled) {
  DiskStorage storage;
  for (const char* name : {"V100", "A100-40GB", "A100", "H100", "H800", "H200", "B200", "GB200",
                           "B300", "GB300", "H20", "A800", "L40S", "MI300X"}) {
    const Hardware found = find_hardware(storage, name);
    EXPECT_TRUE(found.assumed.empty()) << name;
    EXPECT_GT(half_peak(found), 0) << name;
  }
  for (const char* name : {"H20", "A800", "L40S", "MI300X"})
    EXPECT_FALSE(find_hardware(storage, name).validated) << name;
}

TEST(Hardware, AFileMayExtendABuiltInOne) {
  DiskStorage storage;
  const Hardware box = find_hardware(storage, "pcie-ethernet");
  EXPECT_EQ(box.bf16, find_hardware(storage, "A100").bf16);
  EXPECT_LT(box.link, find_hardware(storage, "A100").link / 5);
}

TEST(Hardware, FilesAreCheckedLineByLine) {
  EXPECT_EQ(parse_hardware(kMine, "mine.toml").memory, 16.0 * 1024 * 1024 * 1024);
  EXPECT_NE(refusal(std::string(kMine) + "nicgbs = 1\n").find("unknown key 'network.nicgbs'"),
            std::string::npos);
  EXPECT_NE(refusal(std::string(kMine) + "oversubscribed = 0\n").find("takes a number from 1"),
            std::string::npos);
  EXPECT_NE(refusal("name = \"x\"\n").find("gpu.bf16"), std::string::npos);
  EXPECT_NE(refusal("schema = 2\n").find("this build reads 1"), std::string::npos);
}

TEST(Cluster, ACountAndAGpu) {
  DiskStorage storage;
  const Cluster cluster = parse_cluster(storage, "64xH100");
  EXPECT_EQ(cluster.gpus, 64);
  EXPECT_EQ(cluster.hardware.name, "H100-80GB-SXM");
  EXPECT_EQ(parse_cluster(storage, "GB200").gpus, 72);
  for (const char* wrong : {"", "0xH100", "64", "x", "99999999999xH100", "-1xH100", "H100x64"})
    EXPECT_THROW(parse_cluster(storage, wrong), Error) << wrong;
}

}  // namespace
}  // namespace sextant
