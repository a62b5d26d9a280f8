#include "cli/help.h"

#include <gtest/gtest.h>

namespace sextant::cli {
namespace {

TEST(Help, MeaningsStandInAColumnAndAreBrokenBetweenWords) {
  EXPECT_EQ(help_entry("--top INT=10", "How many layouts to list", 80),
            "  --top INT=10                How many layouts to list\n");
  EXPECT_EQ(help_entry("--top INT", "How many layouts to list", 44),
            "  --top INT           How many layouts to\n"
            "                      list\n");
  EXPECT_EQ(help_entry("--nothing", "", 80), "  --nothing\n");
}

TEST(Help, ALongNameHasALineOfItsOwn) {
  EXPECT_EQ(help_entry("--checkpoint-interval FLOAT=10", "Seconds between two", 80),
            "  --checkpoint-interval FLOAT=10\n"
            "                              Seconds between two\n");
}

TEST(Help, ChoicesAreWordsThatCanBeBroken) {
  EXPECT_EQ(with_choices("Colour", {"auto", "never"}), "Colour [auto, never]");
  EXPECT_EQ(with_choices("A file", {}), "A file");
}

}  // namespace
}  // namespace sextant::cli
