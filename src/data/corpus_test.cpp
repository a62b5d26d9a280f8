#include "data/corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string_view>

namespace sextant {
namespace {

int64_t total(const std::vector<std::string>& documents) {
  int64_t bytes = 0;
  for (const std::string& document : documents) bytes += static_cast<int64_t>(document.size());
  return bytes;
}

TEST(Corpus, HasAtLeastTheBytesAskedForAndOnlyPrintableAscii) {
  const std::vector<std::string> documents = builtin_documents(kBuiltinSeed, kBuiltinBytes);
  EXPECT_GE(total(documents), kBuiltinBytes);
  EXPECT_LT(total(documents), kBuiltinBytes + 16384);
  for (const std::string& document : documents) {
    ASSERT_FALSE(document.empty());
    ASSERT_TRUE(std::all_of(document.begin(), document.end(), [](char c) {
      return c == '\n' || (c >= ' ' && c <= '~');
    })) << document;
    ASSERT_EQ(document.back(), '\n');
  }
}

TEST(Corpus, IsAFunctionOfTheSeedAndGrowsWithoutChange) {
  const auto small = builtin_documents(7, 50'000), large = builtin_documents(7, 100'000);
  ASSERT_LT(small.size(), large.size());
  EXPECT_TRUE(std::equal(small.begin(), small.end(), large.begin()));
  EXPECT_NE(builtin_documents(8, 50'000), small);
}

TEST(Corpus, HardlyRepeatsItself) {
  const std::vector<std::string> documents = builtin_documents(kBuiltinSeed, kBuiltinBytes);
  EXPECT_EQ(std::set<std::string>(documents.begin(), documents.end()).size(), documents.size());
  std::set<std::string_view> lines;
  size_t count = 0;
  for (const std::string& document : documents) {
    std::string_view rest = document;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(line.size() + 1);
      if (line.size() < 24) continue;  // short forms such as sums may repeat
      lines.insert(line);
      ++count;
    }
  }
  EXPECT_GT(static_cast<double>(lines.size()), 0.85 * static_cast<double>(count));
}

// Sums of the form "a + b = c" on a line of their own.
TEST(Corpus, ArithmeticIsRight) {
  int checked = 0;
  for (const std::string& document : builtin_documents(3, 300'000)) {
    size_t at = 0;
    while (at < document.size()) {
      const size_t end = document.find('\n', at);
      const std::string line = document.substr(at, end - at);
      long a = 0, b = 0, c = 0;
      char sign = 0;
      if (std::sscanf(line.c_str(), "%ld %c %ld = %ld", &a, &sign, &b, &c) == 4 && sign != '/') {
        EXPECT_EQ(sign == '+' ? a + b : sign == '-' ? a - b : a * b, c) << line;
        ++checked;
      }
      at = end + 1;
    }
  }
  EXPECT_GT(checked, 300);
}

}  // namespace
}  // namespace sextant
