#include "base/faulty_storage.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

class FaultyStorageTest : public testing::Test {
 protected:
  FaultyStorageTest() { replace_file(disk_, path_, "old"); }

  TempDir dir_;
  DiskStorage disk_;
  const std::string path_ = dir_ / "state";
};

TEST_F(FaultyStorageTest, FailsTheChosenOperationAndNoOther) {
  FaultyStorage faulty(disk_, {.op = StorageOp::Write, .nth = 2, .reason = "Disk on fire"});
  const std::unique_ptr<FileWriter> file = faulty.create(dir_ / "log", OpenMode::Truncate);
  write_text(*file, "a");
  EXPECT_FALSE(faulty.has_failed());
  EXPECT_ERROR(write_text(*file, "b"), Failure, "log: Disk on fire");
  EXPECT_TRUE(faulty.has_failed());
  write_text(*file, "c");
  EXPECT_EQ(read_text(faulty, dir_ / "log"), "ac");
  EXPECT_EQ(faulty.count(StorageOp::Write), 3);
  EXPECT_EQ(faulty.count(StorageOp::Create), 1);
}

TEST_F(FaultyStorageTest, ATornWriteLeavesItsFirstBytes) {
  FaultyStorage faulty(disk_, {.op = StorageOp::Write, .torn_bytes = 3});
  EXPECT_ERROR(write_text(*faulty.create(dir_ / "torn", OpenMode::Truncate), "abcdef"), Failure,
               "No space left on device");
  EXPECT_EQ(read_text(disk_, dir_ / "torn"), "abc");
}

TEST_F(FaultyStorageTest, AfterDeathNothingMoreReachesTheDisk) {
  FaultyStorage faulty(disk_, {.op = StorageOp::Sync, .after = AfterFault::Dead});
  const std::unique_ptr<FileWriter> file = faulty.create(dir_ / "x", OpenMode::Truncate);
  write_text(*file, "a");
  EXPECT_ERROR(file->sync(), Failure, "cannot sync");
  EXPECT_ERROR(write_text(*file, "b"), Failure, "cannot write");
  EXPECT_ERROR(faulty.rename(dir_ / "x", path_), Failure, "cannot rename");
  EXPECT_ERROR(faulty.remove_all(path_), Failure, "cannot remove");
  EXPECT_EQ(read_text(disk_, dir_ / "x"), "a");
  EXPECT_EQ(read_text(disk_, path_), "old");
}

TEST_F(FaultyStorageTest, ReplaceFileLeavesTheOldOrTheNewTextWhereverItDies) {
  for (const StorageOp op : {StorageOp::Create, StorageOp::Write, StorageOp::Sync,
                             StorageOp::Rename, StorageOp::SyncDirectory}) {
    replace_file(disk_, path_, "old");
    FaultyStorage faulty(disk_, {.op = op, .torn_bytes = 2, .after = AfterFault::Dead});
    EXPECT_ERROR(replace_file(faulty, path_, "new text"), Failure, "No space left on device");
    const std::string expected = op == StorageOp::SyncDirectory ? "new text" : "old";
    EXPECT_EQ(read_text(disk_, path_), expected) << static_cast<int>(op);
  }
}

}  // namespace
}  // namespace sextant
