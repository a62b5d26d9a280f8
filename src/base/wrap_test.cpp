#include "base/wrap.h"

#include <gtest/gtest.h>

#include "base/columns.h"
#include "base/parse.h"

namespace sextant {
namespace {

size_t widest(const std::string& text) {
  size_t most = 0;
  for (const std::string& line : split(text, '\n')) most = std::max(most, width_of(line));
  return most;
}

TEST(Wrap, LeavesWhatFits) {
  EXPECT_EQ(wrapped("one\n\n  two  \n", 30), "one\n\n  two  \n");
  EXPECT_EQ(wrapped("", 30), "");
  EXPECT_EQ(wrapped("é × µ … é × µ … é × µ …", 23), "é × µ … é × µ … é × µ …");
}

TEST(Wrap, BreaksBetweenFieldsBeforeItBreaksBetweenWords) {
  EXPECT_EQ(wrapped("step 10/60  loss 4.7174  norm 1.897  lr 1.5e-03  97.3k tok/s", 40),
            "step 10/60  loss 4.7174  norm 1.897\n            lr 1.5e-03  97.3k tok/s");
  EXPECT_EQ(wrapped("error: a sentence that has one space between its words", 30),
            "error: a sentence that has one\n  space between its words");
}

TEST(Wrap, ContinuesBelowTheTextAfterAName) {
  EXPECT_EQ(wrapped("model      gpt2 tiny: 4 layers, hidden 64, 4/4 heads of 16", 40),
            "model      gpt2 tiny: 4 layers, hidden\n           64, 4/4 heads of 16");
}

TEST(Wrap, KeepsTheColumnsOfATable) {
  const std::string table =
      "memory     rank      weights  gradients        peak   reserved   of 2 GiB\n"
      "           0       861.5 KiB  861.5 KiB    41.5 MiB   41.6 MiB\n"
      "           1-2     861.5 KiB    1.5 KiB   141.5 MiB    1.6 MiB\n";
  EXPECT_EQ(wrapped(table, 50),
            "memory     rank      weights  gradients\n"
            "                peak   reserved   of 2 GiB\n"
            "           0       861.5 KiB  861.5 KiB\n"
            "            41.5 MiB   41.6 MiB\n"
            "           1-2     861.5 KiB    1.5 KiB\n"
            "           141.5 MiB    1.6 MiB\n");
}

TEST(Wrap, NeverBreaksAWord) {
  const std::string path(60, 'p');
  EXPECT_EQ(wrapped("cannot read " + path + ": no such file", 40),
            "cannot read\n  " + path + ":\n  no such file");
}

TEST(Wrap, FitsEveryWidth) {
  const std::string text =
      "step 10/60  loss 4.7174  norm 1.897  lr 1.50e-03  97.3k tok/s  0.134 TFLOP/s  mfu 57.4%  "
      "mem "
      "41.5 MiB  10.5 ms  comm 20.6 ms exposed";
  for (size_t width = 30; width <= 200; ++width) {
    const std::string broken = wrapped(text, width);
    EXPECT_LE(widest(broken), width);
    std::string one, other;
    for (const char ch : broken)
      if (ch != ' ' && ch != '\n') one += ch;
    for (const char ch : text)
      if (ch != ' ') other += ch;
    EXPECT_EQ(one, other) << "nothing is lost at " << width;
  }
}

TEST(Wrap, CutsWholeCharacters) {
  EXPECT_EQ(cut_to("µs × 3", 4), "µs ×");
  EXPECT_EQ(cut_to("abc", 10), "abc");
}

}  // namespace
}  // namespace sextant
