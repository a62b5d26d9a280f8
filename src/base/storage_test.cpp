#include "base/storage.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

class DiskStorageTest : public testing::Test {
 protected:
  void write(const std::string& path, std::string_view text, OpenMode mode = OpenMode::Truncate) {
    write_text(*disk_.create(path, mode), text);
  }

  TempDir dir_;
  DiskStorage disk_;
};

TEST_F(DiskStorageTest, ReadsWhatWasWritten) {
  const std::string path = dir_ / "file";
  write(path, std::string_view("a\0b\n", 4));
  EXPECT_EQ(read_text(disk_, path), std::string("a\0b\n", 4));
  write(path, "new");
  EXPECT_EQ(read_text(disk_, path), "new");
  write(dir_ / "empty", "");
  EXPECT_EQ(read_text(disk_, dir_ / "empty"), "");
}

TEST_F(DiskStorageTest, AppendGoesOnWhereTheFileEnds) {
  const std::string path = dir_ / "log";
  write(path, "one\n");
  const std::unique_ptr<FileWriter> file = disk_.create(path, OpenMode::Append);
  EXPECT_EQ(file->offset(), 4);
  write_text(*file, "two\n");
  EXPECT_EQ(file->offset(), 8);
  file->sync();
  EXPECT_EQ(read_text(disk_, path), "one\ntwo\n");
  disk_.truncate(path, 4);
  EXPECT_EQ(read_text(disk_, path), "one\n");
}

TEST_F(DiskStorageTest, ReplaceLeavesOneFileWithTheNewText) {
  const std::string path = dir_ / "state";
  replace_file(disk_, path, "old");
  replace_file(disk_, path, "new");
  EXPECT_EQ(read_text(disk_, path), "new");
  EXPECT_EQ(disk_.list(dir_.path()), std::vector<std::string>{"state"});
}

TEST_F(DiskStorageTest, DirectoriesAreMadeWithParentsListedSortedAndRemoved) {
  disk_.make_directories(dir_ / "a/b/c");
  disk_.make_directories(dir_ / "a/b/c");
  EXPECT_TRUE(disk_.is_directory(dir_ / "a/b/c"));
  write(dir_ / "a/z", "");
  write(dir_ / "a/k", "");
  EXPECT_EQ(disk_.list(dir_ / "a"), (std::vector<std::string>{"b", "k", "z"}));
  disk_.sync_directory(dir_ / "a");
  disk_.remove_all(dir_ / "a");
  EXPECT_FALSE(disk_.exists(dir_ / "a"));
  disk_.remove_all(dir_ / "a");
}

TEST_F(DiskStorageTest, WhatCannotBeReadIsBadData) {
  EXPECT_ERROR(disk_.open(dir_ / "gone"), Data, "gone: No such file");
  EXPECT_ERROR(disk_.open(dir_.path()), Data, "a directory");
  EXPECT_ERROR(disk_.list(dir_ / "gone"), Data, "cannot list");
}

TEST_F(DiskStorageTest, WhatCannotBeWrittenIsAFailureThatNamesPathAndReason) {
  write(dir_ / "file", "");
  EXPECT_ERROR(write("/dev/full", "x"), Failure, "cannot write /dev/full: No space left on device");
  EXPECT_ERROR(disk_.create(dir_ / "no/such/dir", OpenMode::Truncate), Failure, "No such file");
  EXPECT_ERROR(disk_.create(dir_ / "file/below", OpenMode::Truncate), Failure, "Not a directory");
  EXPECT_ERROR(disk_.make_directories(dir_ / "file/below"), Failure, "cannot make directory");
  EXPECT_ERROR(disk_.make_directories(dir_ / "file"), Failure, "cannot make directory");
  EXPECT_ERROR(disk_.rename(dir_ / "gone", dir_ / "x"), Failure, "cannot rename");
  EXPECT_ERROR(disk_.truncate(dir_ / "gone", 0), Failure, "cannot cut");
  EXPECT_ERROR(disk_.sync_directory(dir_ / "gone"), Failure, "cannot sync");
  EXPECT_ERROR(replace_file(disk_, dir_ / "file/below", "x"), Failure, "cannot write");
  disk_.make_directories(dir_ / "taken/by");
  EXPECT_ERROR(replace_file(disk_, dir_ / "taken", "x"), Failure, "cannot rename");
  EXPECT_FALSE(disk_.exists(dir_ / "taken.tmp"));
}

TEST(Paths, JoinAndParentFollowTheFileSystem) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("a", "/b"), "/b");
  EXPECT_EQ(parent_path("a/b"), "a");
  EXPECT_EQ(parent_path("b"), ".");
}

}  // namespace
}  // namespace sextant
