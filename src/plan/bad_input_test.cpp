// Five hundred bad inputs: each is refused in one line that is no accident.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "plan/hardware.h"
#include "plan/run_table.h"
#include "plan/search.h"
#include "plan/sweep.h"
#include "sim/machine.h"

namespace sextant {
namespace {

class BadInputs {
 public:
  void refuse(const std::string& input, const std::function<void()>& read) {
    ++count;
    try {
      read();
      ADD_FAILURE() << "accepted: " << input;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_TRUE(error.fault() == Fault::Config || error.fault() == Fault::Usage ||
                  error.fault() == Fault::Data)
          << input << ": " << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << input << ": " << text;
      EXPECT_GT(text.size(), 15u) << input;
    } catch (const std::exception& other) {
      ADD_FAILURE() << input << ": " << other.what();
    }
  }
  int count = 0;
};

constexpr const char* kGood = R"(schema = 1
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

TEST(BadInputs, FiveHundredOfThemGiveFiveHundredOneLineErrors) {
  BadInputs bad;
  DiskStorage storage;
  parse_hardware(kGood, "good");
  const char* keys[] = {"gpu.fp16",
                        "gpu.fp8",
                        "gpu.fp4",
                        "gpu.tf32",
                        "gpu.fp32",
                        "gpu.l2_mb",
                        "gpu.l1_kb",
                        "gpu.sms",
                        "gpu.l2_cycles",
                        "gpu.design_power_w",
                        "node.domain",
                        "node.gpus",
                        "node.taper",
                        "node.torus",
                        "node.host_gb_s",
                        "gpu.gemm_ceiling",
                        "gpu.memory_cycles",
                        "gpu.l1_cycles",
                        "network.leaf_domains",
                        "network.oversubscribed",
                        "network.static_routes",
                        "cpu.cores"};
  for (const std::string key : keys)
    for (const char* value : {"-1", "-1e300", "1e300", "\"many\"", "true", "nan", "inf", "-inf",
                              "[1, 2]", "1979-05-27", "=", "", "{}", "0x", "1_", "''"}) {
      const size_t dot = key.find('.');
      const std::string section = "[" + key.substr(0, dot) + "]\n";
      const std::string line = key.substr(dot + 1) + " = " + value + "\n";
      std::string text = kGood;
      if (const size_t at = text.find(section); at != std::string::npos)
        text.insert(at + section.size(), line);
      else
        text += section + line;
      bad.refuse(text, [&] { parse_hardware(text, "m.toml"); });
    }
  for (const char* line :
       {"colour = 3", "[gpu.bf16]\nx = 1", "schema = 2", "generation = \"abacus\"",
        "extends = \"none\"", "validated = 3", "name = 3", "aliases = 1", "[matmul-f32-1]\nus = -1",
        "[matmul-f32-1]\nspeed = 1", "[cpu]\nsize = 1"})
    bad.refuse(line, [&] { parse_hardware(std::string(line) + "\n" + kGood, "m.toml"); });
  for (const char* gpu : {"abacus", "", "x", "9000", "../h100", "h100.toml", "-h100", "TPU-v99"})
    for (const char* count :
         {"", "0x", "-1x", "1.5x", "1e9x", "99999999999999999999x", "x", "ten "})
      bad.refuse(std::string(count) + gpu,
                 [&] { parse_cluster(storage, std::string(count) + gpu); });
  for (const char* axis : {"dp", "shard", "zero", "tp", "cp", "pp", "ep", "chunks", "micro",
                           "schedule", "recompute", "gpus", ""})
    for (const char* value :
         {"=-1", "=x", "=1.5", "=", "", "=99999999999999999999", "==2", "=2,,", "=2,tp", "=1e3"})
      if (std::string text = std::string(axis) + value; !text.empty())
        bad.refuse(text, [&] { parse_fixed(text); });
  for (const char* table : {"", "\n", "a,b,c\n1,2,3\n", "identity\n1\n", "\"id\n"})
    bad.refuse(table, [&] { read_runs(table, "t.csv"); });
  for (const char* machine : {"", "name = \"a\"", "[cpu]\ncores = 2", "[cpu]\ncores = 5000",
                              "[a-b-1]\nus = 1", "[cpu]\ncores = 1.5e9\n[a-b-1]\nus = 1"})
    bad.refuse(machine, [&] { parse_machine(machine, "m.toml"); });
  for (const char* sweep :
       {"", "gpus", "gpus=", "gpus=0", "gpus=-8", "gpus=8..4", "gpus=a..b", "batch=0", "batch=1..",
        "micro=x", "tp=8", "gpus=1..99999999999999", "=8", "gpus=8,,16", "gpus=8 16"})
    bad.refuse(sweep, [&] { parse_sweep(sweep); });
  EXPECT_GE(bad.count, 500);
}

}  // namespace
}  // namespace sextant
