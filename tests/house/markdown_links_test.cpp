#include "house/markdown_links.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/built.h"
#include "support/temp_dir.h"

namespace sextant::house {
namespace {

using Lines = std::vector<std::string>;

TEST(MarkdownLinks, ToFilesAndHeadingsAreFollowed) {
  const TempDir dir;
  std::ofstream(dir / "there.md") << "# Exit codes, and why\n";
  std::ofstream(dir / "start.md") << "[a](there.md) [b](there.md#exit-codes-and-why)\n"
                                     "[c](https://example.org/none) [d](gone.md)\n"
                                     "[e](there.md#nowhere) `[f](code.md)`\n"
                                     "```\n[g](fenced.md)\n```\n"
                                     "[h](#none)\n";
  EXPECT_EQ(find_broken_links(dir.path()),
            (Lines{"start.md:2: gone.md", "start.md:3: there.md#nowhere", "start.md:7: #none"}));
}

TEST(MarkdownLinks, OfThisHouseAllResolve) {
  for (const std::string& line : find_broken_links(source_dir())) ADD_FAILURE() << line;
}

}  // namespace
}  // namespace sextant::house
