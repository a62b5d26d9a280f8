#include "ops/gemm_choices.h"

#include <gtest/gtest.h>

#include "base/storage.h"
#include "support/temp_dir.h"

namespace sextant {
namespace {

constexpr GemmChoices::Key kProduct = {512, 768, 3072, 1, -1}, kOther = {512, 768, 3072, 1, 1};
constexpr GemmChoices::Kernel kFirst = {1, ~uint64_t{0}, 3}, kSecond = {7};

TEST(GemmChoices, AreThereInTheNextRun) {
  const TempDir directory;
  const std::string place = join_path(directory.path(), "not made yet");
  GemmChoices choices(place, "gemm.txt");
  EXPECT_FALSE(choices.find(kProduct));
  EXPECT_TRUE(choices.keep(kProduct, kFirst));
  EXPECT_EQ(choices.find(kProduct), kFirst);
  const GemmChoices next(place, "gemm.txt");
  EXPECT_EQ(next.find(kProduct), kFirst);
  EXPECT_FALSE(next.find(kOther));
  EXPECT_FALSE(GemmChoices(place, "of another GPU.txt").find(kProduct));
}

TEST(GemmChoices, OfTwoProcessesTheFirstCounts) {
  const TempDir directory;
  GemmChoices one(directory.path(), "gemm.txt"), two(directory.path(), "gemm.txt");
  EXPECT_TRUE(one.keep(kProduct, kFirst));
  EXPECT_TRUE(two.keep(kProduct, kSecond));
  EXPECT_EQ(GemmChoices(directory.path(), "gemm.txt").find(kProduct), kFirst);
}

TEST(GemmChoices, ThatAreDamagedCountForNothing) {
  const TempDir directory;
  DiskStorage storage;
  const std::string path = join_path(directory.path(), "gemm.txt");
  GemmChoices choices(directory.path(), "gemm.txt");
  EXPECT_TRUE(choices.keep(kProduct, kFirst));
  const std::string line = read_text(storage, path);
  for (const std::string& text :
       {line.substr(0, line.size() / 2), "5" + line, std::string("no numbers\n")}) {
    replace_file(storage, path, text);
    EXPECT_FALSE(GemmChoices(directory.path(), "gemm.txt").find(kProduct)) << text;
  }
  replace_file(storage, path, "torn 1 2\n" + line);
  EXPECT_EQ(GemmChoices(directory.path(), "gemm.txt").find(kProduct), kFirst);
}

TEST(GemmChoices, ThatCannotBeKeptAreRefused) {
  const TempDir directory;
  DiskStorage storage;
  const std::string file = join_path(directory.path(), "file");
  replace_file(storage, file, "");
  GemmChoices choices(file, "gemm.txt");  // below a file
  EXPECT_FALSE(choices.keep(kProduct, kFirst));
  EXPECT_FALSE(choices.find(kProduct));
}

}  // namespace
}  // namespace sextant
