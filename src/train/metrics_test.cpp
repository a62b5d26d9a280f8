#include "train/metrics.h"

#include <gtest/gtest.h>

#include "base/faulty_storage.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

class MetricsTest : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) {
    disk_.make_directories(parent_path(dir_ / name));
    write_text(*disk_.create(dir_ / name, OpenMode::Truncate), text);
  }
  std::string read(const std::string& name) { return read_text(disk_, dir_ / name); }

  TempDir dir_;
  DiskStorage disk_;
  SystemClock clock_;
};

TEST_F(MetricsTest, CutsAfterTheLineOfTheLastStepDone) {
  put("m", "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  cut_metrics(disk_, dir_ / "m", 2);
  EXPECT_EQ(read("m"), "{\"step\":1}\n{\"step\":2}\n");
  cut_metrics(disk_, dir_ / "m", 0);
  EXPECT_EQ(read("m"), "");
}

TEST_F(MetricsTest, CutsWhatIsNoLineOfMetrics) {
  const std::string good = "{\"step\":1}\n";
  for (const char* junk : {"{\"step\":2", "{\"step\":2}", "\n", "null\n", "{}\n", "[1]\n",
                           "{\"step\":\"2\"}\n", "{\"step\":2.5}\n", "\xff\n"}) {
    put("m", good + junk);
    cut_metrics(disk_, dir_ / "m", 100);
    EXPECT_EQ(read("m"), good) << junk;
  }
  cut_metrics(disk_, dir_ / "absent", 1);
  EXPECT_FALSE(disk_.exists(dir_ / "absent"));
}

TEST_F(MetricsTest, AFreshStartTakesOnlyItsOwnFilesOutOfTheWay) {
  put("metrics.jsonl", "old");
  put("checkpoints/latest", "old");
  put("notes.txt", "mine");
  put("previous-1/metrics.jsonl", "older");
  Metrics(disk_, clock_, dir_.path(), Start::Fresh, 0, false).write({.step = 1});
  EXPECT_EQ(read("previous-1/metrics.jsonl"), "older");
  EXPECT_EQ(read("previous-2/metrics.jsonl"), "old");
  EXPECT_EQ(read("previous-2/checkpoints/latest"), "old");
  EXPECT_EQ(read("notes.txt"), "mine");
  EXPECT_TRUE(read("metrics.jsonl").starts_with("{\"step\":1,"));
  EXPECT_FALSE(disk_.exists(dir_ / "tensorboard"));
}

TEST_F(MetricsTest, ALineIsOnDiskAsSoonAsItIsWritten) {
  Metrics metrics(disk_, clock_, dir_.path(), Start::Fresh, 0, true);
  metrics.write({.step = 1, .eval_loss = 2});
  EXPECT_EQ(read("metrics.jsonl"), to_json({.step = 1, .eval_loss = 2}) + "\n");
  EXPECT_EQ(disk_.list(dir_ / "tensorboard").size(), 1u);
}

// A layer has a histogram, whose bucket limits are half-way between the numbers of experts.
TEST_F(MetricsTest, TensorBoardHasTheLossesOfRoutersAndTheTokensOfEachExpert) {
  Metrics metrics(disk_, clock_, dir_.path(), Start::Fresh, 0, true);
  RoutingRecord routing;
  routing.balance_loss = 1.25;
  routing.router_z_loss = 0.75;
  routing.expert_tokens = {{1, 2, 5}, {8, 0, 0}};
  routing.dropped = 4;
  metrics.write({.step = 1, .routing = routing});
  const std::string events = read("tensorboard/" + disk_.list(dir_ / "tensorboard").at(0));
  const auto numbers = [](std::initializer_list<double> values) {
    return std::string(reinterpret_cast<const char*>(values.begin()), 8 * values.size());
  };
  const auto scalar = [](const std::string& tag, float value) {
    std::string text = tag + "\x15";
    return text.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  EXPECT_NE(events.find(scalar("experts/router_z_loss", 0.75)), events.npos);
  EXPECT_NE(events.find(scalar("experts/balance_loss", 1.25)), events.npos);
  EXPECT_NE(events.find(scalar("experts/imbalance", 3)), events.npos);
  EXPECT_NE(events.find(scalar("experts/dropped", 0.25)), events.npos);
  const size_t first = events.find("experts/tokens/0"), second = events.find("experts/tokens/1");
  ASSERT_NE(first, events.npos);
  ASSERT_NE(second, events.npos);
  EXPECT_NE(events.find(numbers({0.5, 1.5, 2.5}) + "\x3a\x18" + numbers({1, 2, 5}), first),
            events.npos);
  EXPECT_NE(events.find(numbers({0.5, 1.5, 2.5}) + "\x3a\x18" + numbers({8, 0, 0}), second),
            events.npos);
}

TEST_F(MetricsTest, AFullDiskIsNamed) {
  StorageFault fault;
  fault.nth = 2;
  FaultyStorage full(disk_, fault);
  Metrics metrics(full, clock_, dir_.path(), Start::Fresh, 0, false);
  metrics.write({.step = 1});
  EXPECT_ERROR(metrics.write({.step = 2}), Failure, "No space left on device");
}

}  // namespace
}  // namespace sextant
