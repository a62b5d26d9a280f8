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
