#include "checkpoint/save.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/faulty_storage.h"
#include "support/checkpoints.h"
#include "support/expect_error.h"
#include "support/power_loss.h"
#include "support/temp_dir.h"
#include "support/unsynced_disk.h"

namespace sextant {
namespace {

// Reports success for data that it keeps with one bit changed.
class LyingDisk final : public UnsyncedDisk {
 public:
  std::unique_ptr<FileWriter> create(const std::string& path, OpenMode mode) override {
    return std::make_unique<Writer>(UnsyncedDisk::create(path, mode));
  }

 private:
  class Writer final : public FileWriter {
   public:
    explicit Writer(std::unique_ptr<FileWriter> under) : under_(std::move(under)) {}
    void write(std::span<const std::byte> bytes) override {
      std::vector<std::byte> kept(bytes.begin(), bytes.end());
      if (kept.size() == 60) kept[17] ^= std::byte{1};  // the table
      under_->write(kept);
    }
    void sync() override { under_->sync(); }
    int64_t offset() const override { return under_->offset(); }

   private:
    std::unique_ptr<FileWriter> under_;
  };
};

class SaveTest : public testing::Test {
 protected:
  SaveTest() : old_(bench_, "old"), new_(bench_, "new"), loaded_(bench_, "loaded") {}

  SaveReport save(Storage& storage, const std::string& dir, SampleState& state, int64_t step,
                  int64_t keep = 2) {
    return save_alone(storage, dir, state_at(step), state.tensors(), bench_.stream(),
                      {.keep = keep});
  }
  std::vector<std::string> names(const std::string& dir) {
    std::vector<std::string> out;
    for (const CheckpointInfo& info : list_checkpoints(disk_, dir, Check::Hashes)) {
      EXPECT_TRUE(info.ok) << info.problem;
      out.push_back(info.name);
    }
    return out;
  }

  // The latest checkpoint is whole and holds either state, bit for bit, with the step it had.
  void expect_old_or_new(const std::string& dir, int64_t old_step, int64_t new_step) {
    const std::string path = find_latest(disk_, dir);
    verify_checkpoint(disk_, path);
    const Manifest manifest = read_manifest(disk_, path);
    load_tensors(disk_, path, manifest, loaded_.tensors(), bench_.stream(), LoadWhat::All);
    const std::vector<float> table = head(loaded_);
    const bool is_old = table == head(old_) && manifest.state.step == old_step;
    const bool is_new = table == head(new_) && manifest.state.step == new_step;
    EXPECT_TRUE(is_old || is_new) << path;
  }

  // Tries `attempt` on a directory with one old checkpoint, then what comes after a fault.
  void after_each_fault(int64_t new_step, const std::function<bool(const std::string&)>& attempt) {
    TempDir dir;
    save(disk_, dir.path(), old_, 10);
    const bool failed = attempt(dir.path());
    expect_old_or_new(dir.path(), 10, new_step);
    if (!failed) return;
    // The next save works, clears up and leaves nothing but checkpoints.
    save(disk_, dir.path(), new_, new_step);
    expect_old_or_new(dir.path(), -1, new_step);
    for (const std::string& name : disk_.list(dir.path()))
      EXPECT_FALSE(name.ends_with(".tmp")) << name;
    names(dir.path());
  }

  std::vector<float> head(SampleState& state) {
    std::vector<float> table = bench_.read<float>(state.table());
    table.resize(15);
    return table;
  }

  TempDir dir_;
  UnsyncedDisk disk_;
  Workbench bench_;
  SampleState old_, new_, loaded_;
};

TEST_F(SaveTest, WritesADirectoryPerStepAndMovesLatest) {
  const SaveReport report = save(disk_, dir_ / "a/b", old_, 10);
  EXPECT_EQ(report.path, dir_ / "a/b/step-00000010");
  EXPECT_EQ(report.tensors, 5);
  EXPECT_EQ(report.files, 2);
  EXPECT_EQ(disk_.list(report.path),
            (std::vector<std::string>{"manifest.json", "optim-00000.safetensors",
                                      "weights-00000.safetensors"}));
  EXPECT_EQ(disk_.list(dir_ / "a/b"), (std::vector<std::string>{"latest", "step-00000010"}));
  EXPECT_EQ(read_text(disk_, dir_ / "a/b/latest"), "step-00000010\n");
}

TEST_F(SaveTest, DoesNotMoveLatestInADirectoryThatIsAnotherRunsByNow) {
  const TempDir dir;
  save(disk_, dir.path(), old_, 4);
  SaveOptions options;
  options.check_owner = [] { SXT_FAIL(Failure, "not ours any more"); };
  EXPECT_ERROR(save_alone(disk_, dir.path(), state_at(8), new_.tensors(), bench_.stream(), options),
               Failure, "not ours any more");
  EXPECT_EQ(latest_name(disk_, dir.path()), "step-00000004");
  expect_old_or_new(dir.path(), 4, 4);
}

TEST_F(SaveTest, SplitsShardsByTensors) {
  const SaveReport report = save_alone(disk_, dir_.path(), state_at(1), old_.tensors(),
                                       bench_.stream(), {.keep = 1, .shard_bytes = 64});
  // Bytes of the weights in order: 60 | 16 + 8 + 24.
  EXPECT_EQ(report.files, 3);
  EXPECT_EQ(read_manifest(disk_, report.path).find("cube")->slices[0].file,
            "weights-00001.safetensors");
  verify_checkpoint(disk_, report.path);
}

TEST_F(SaveTest, PassesLargeTensorsThroughInPieces) {
  Tensor large = bench_.random<float>({3, kPassBytes / 4 + 1}, "large", 1, 0);
  std::vector<NamedTensor> tensors{{"large", large, 3}};
  const std::string path =
      save_alone(disk_, dir_.path(), state_at(0), tensors, bench_.stream()).path;
  const std::vector<float> wanted = bench_.read<float>(large);
  fill_zero(bench_.stream(), large);
  load_tensors(disk_, path, read_manifest(disk_, path), tensors, bench_.stream(), LoadWhat::All);
  EXPECT_EQ(bench_.read<float>(large), wanted);
}

TEST_F(SaveTest, KeepsTheNewestWholeOnes) {
  for (const int64_t step : {10, 20, 30, 40}) save(disk_, dir_.path(), old_, step, 3);
  EXPECT_EQ(names(dir_.path()),
            (std::vector<std::string>{"step-00000020", "step-00000030", "step-00000040"}));
  EXPECT_EQ(save(disk_, dir_.path(), old_, 50, 1).removed.size(), 3u);
  EXPECT_EQ(names(dir_.path()), (std::vector<std::string>{"step-00000050"}));
  EXPECT_ERROR(save(disk_, dir_.path(), old_, 60, 0), Usage, "keep 0, at least 1 is right");
}

TEST_F(SaveTest, ADamagedCheckpointDoesNotCountAsKept) {
  save(disk_, dir_.path(), old_, 10);
  save(disk_, dir_.path(), old_, 20);
  disk_.truncate(dir_ / "step-00000020/weights-00000.safetensors", 9);
  const SaveReport report = save(disk_, dir_.path(), old_, 30, 2);
  EXPECT_EQ(report.broken, (std::vector<std::string>{"step-00000020"}));
  EXPECT_TRUE(report.removed.empty());
  EXPECT_EQ(disk_.list(dir_.path()), (std::vector<std::string>{"latest", "step-00000010",
                                                               "step-00000020", "step-00000030"}));
}

TEST_F(SaveTest, StepsBeyondTheLatestGoFirst) {
  save(disk_, dir_.path(), old_, 10);
  save(disk_, dir_.path(), old_, 90);
  replace_file(disk_, dir_ / "latest", "step-00000010\n");
  save(disk_, dir_.path(), new_, 20, 2);
  EXPECT_EQ(names(dir_.path()), (std::vector<std::string>{"step-00000010", "step-00000020"}));
}

TEST_F(SaveTest, ReplacesTheSameStep) {
  save(disk_, dir_.path(), old_, 10);
  save(disk_, dir_.path(), new_, 10);
  EXPECT_EQ(names(dir_.path()), (std::vector<std::string>{"step-00000010-r1"}));
  expect_old_or_new(dir_.path(), -1, 10);
  save(disk_, dir_.path(), old_, 10);
  EXPECT_EQ(names(dir_.path()), (std::vector<std::string>{"step-00000010"}));
}

TEST_F(SaveTest, AnyOperationMayFailAndTheLatestStaysWhole) {
  int64_t failures = 0;
  for (int op = 0; op < kStorageOps; ++op)
    for (const AfterFault after : {AfterFault::Recovers, AfterFault::Dead})
      for (const int64_t step : {10, 20})
        for (int64_t nth = 1, failed = 1; failed; ++nth) {
          SCOPED_TRACE(concat("op ", op, " nth ", nth, " step ", step));
          after_each_fault(step, [&](const std::string& dir) {
            FaultyStorage faulty(disk_, {static_cast<StorageOp>(op), nth, "No space left on device",
                                         nth % 2 * 11, after});
            // A failure while something is cleared away may pass unseen, any other must not.
            try {
              save(faulty, dir, new_, step);
            } catch (const Error& error) {
              EXPECT_EQ(error.fault(), Fault::Failure);
              EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos);
              ++failures;
            }
            failed = faulty.has_failed();
            return failed != 0;
          });
        }
  EXPECT_GT(failures, 80);
}

TEST_F(SaveTest, PowerMayFailAnywhereAndTheLatestStaysWhole) {
  for (const int64_t step : {10, 20}) {
    int64_t nth = 0;
    for (bool failed = true; failed;) {
      ++nth;
      SCOPED_TRACE(concat("operation ", nth, " step ", step));
      after_each_fault(step, [&](const std::string& dir) {
        PowerLossStorage storage(nth);
        try {
          save(storage, dir, new_, step);
        } catch (const Error& error) {
          EXPECT_STREQ(error.what(), "the power failed");
        }
        failed = storage.is_dead();
        storage.lose_unsynced();
        return failed;
      });
    }
    EXPECT_GT(nth, 25);
  }
}

TEST_F(SaveTest, WhatTheDiskKeptWrongNeverBecomesTheLatest) {
  save(disk_, dir_.path(), old_, 10);
  LyingDisk lying;
  EXPECT_ERROR(save(lying, dir_.path(), new_, 20), Data, "weights-00000.safetensors: damaged");
  expect_old_or_new(dir_.path(), 10, -1);
}

TEST_F(SaveTest, AFailedSaveGivesItsSpaceBack) {
  save(disk_, dir_.path(), old_, 10);
  FaultyStorage faulty(disk_, {.op = StorageOp::Write, .nth = 4});
  EXPECT_ERROR(save(faulty, dir_.path(), new_, 20), Failure, "No space left on device");
  EXPECT_EQ(disk_.list(dir_.path()), (std::vector<std::string>{"latest", "step-00000010"}));
}

TEST_F(SaveTest, RefusesWrongUse) {
  std::vector<NamedTensor> twice{old_.tensors()[0], old_.tensors()[0]};
  EXPECT_ERROR(save_alone(disk_, dir_.path(), state_at(1), twice, bench_.stream()), Usage,
               "is written twice");
  EXPECT_ERROR(save(disk_, dir_.path(), old_, -1), Usage, "step -1");
}

}  // namespace
}  // namespace sextant
