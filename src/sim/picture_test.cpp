#include "sim/picture.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "formats/chrome_trace.h"
#include "schedule/generators.h"
#include "sim/simulate.h"
#include "support/built.h"
#include "support/expect_error.h"
#include "support/same_picture.h"

namespace sextant {
namespace {

const std::vector<StageCost> kCounted = {kCountHeld};

size_t count_of(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string text_of(const Schedule& schedule, const Costs& costs, int width) {
  return timeline_text(schedule, simulate(schedule, costs), width);
}

TEST(TimelineText, HasACellForEachUnitOfTime) {
  EXPECT_EQ(text_of(one_f_one_b(4, 8), {}, 120),
            "rank 0  F0 F1 F2 F3 .. .. .. .. .. .. B0 B0 F4 B1 B1 F5 B2 B2 F6 B3 B3 F7 B4 B4 .. B5 "
            "B5 .. B6 B6 .. B7 B7\n"
            "rank 1  .. F0 F1 F2 .. .. .. .. B0 B0 F3 B1 B1 F4 B2 B2 F5 B3 B3 F6 B4 B4 F7 B5 B5 .. "
            "B6 B6 .. B7 B7\n"
            "rank 2  .. .. F0 F1 .. .. B0 B0 F2 B1 B1 F3 B2 B2 F4 B3 B3 F5 B4 B4 F6 B5 B5 F7 B6 B6 "
            ".. B7 B7\n"
            "rank 3  .. .. .. F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 F4 B4 B4 F5 B5 B5 F6 B6 B6 F7 B7 "
            "B7\n");
  // The unit divides all times.
  EXPECT_EQ(text_of(zb_h1(1, 1), {.stages = {{0.3, 0.2, 0.1}}}, 80), "rank 0  F0 F0 F0 B0 B0 W0\n");
  EXPECT_EQ(text_of(gpipe(2, 1), {.latency = 0.5}, 80),
            "rank 0  F0 F0 .. .. .. .. .. .. .. .. B0 B0 B0 B0\n"
            "rank 1  .. .. .. F0 F0 B0 B0 B0 B0\n");
}

TEST(TimelineText, WritesDenserWhereTheWidthIsShort) {
  EXPECT_EQ(text_of(zb_v(2, 3), {}, 47),
            "rank 0  F0F1F2f0b0w0f1b1w1B0W0f2b2w2B1W1B2W2\n"
            "rank 1  ..F0f0F1f1b0w0F2B0W0f2b1w1B1b2B2W1w2W2\n");
  // A letter without a number where the number does not fit: a truncated number would be wrong.
  EXPECT_EQ(text_of(one_f_one_b(2, 40), {}, 60),
            "rank 0  F.BBBBFBBBFFBBBFFBBBFBBBFFBBBFFBBBFBBBBFBBBFFBBBFFBB\n"
            "rank 1  FBBBFFBBBFBBBFFBBBFFBBBFBBBBFBBBFFBBBFFBBBFBBBFFBBB\n");
  EXPECT_EQ(text_of(gpipe(1, 11), {}, 80),
            "rank 0  F0F1F2F3F4F5F6F7F8F9F-B0--B1--B2--B3--B4--B5--B6--B7--B8--B9--B10-\n");
}

TEST(TimelineText, NamesABlockThatOverlapsAsOne) {
  const Schedule schedule{
      "by hand",
      1,
      2,
      Placement::Loop,
      {{{Kind::F, 0, 0}, {Kind::F, 0, 1, true}, {Kind::B, 0, 0}, {Kind::B, 0, 1}}}};
  EXPECT_EQ(text_of(schedule, {.overlap = 1}, 80), "rank 0  F0    F1&B0 B1    B1\n");
  EXPECT_EQ(text_of(schedule, {}, 80), "rank 0  F0 F1 B0 B0 B1 B1\n");
}

TEST(TimelineSvg, DrawsEveryActionAndWhatIsHeld) {
  const Schedule schedule = zb_h1(3, 5);
  const std::string svg = timeline_svg(schedule, simulate(schedule, {}), kCounted);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  // 15 of each kind and one in the legend.
  for (const char* colour : {"fill=\"#2f6fd0\"", "fill=\"#1a7f4b\"", "fill=\"#c46a0c\""})
    EXPECT_EQ(count_of(svg, colour), 16u) << colour;
  EXPECT_EQ(count_of(svg, "class=\"on\""), 45u);
  EXPECT_EQ(count_of(svg, "class=\"held\""), 3u);
  EXPECT_EQ(count_of(svg, ">rank 2<"), 2u);
  EXPECT_EQ(count_of(svg, ">peak 3<"), 3u);
  EXPECT_EQ(count_of(svg, ">idle 2 in span<"), 1u);
  EXPECT_EQ(
      count_of(svg,
               ">zb-h1: 3 ranks, 5 micro-batches, makespan 17, bubble 11.8 %, utilisation 88.2 %<"),
      1u);
}

TEST(TimelineSvg, DrawsChunksInOtherTonesAndBlocksAboveEachOther) {
  const Schedule schedule = dualpipe_v(2, 4);
  const std::string svg = timeline_svg(schedule, simulate(schedule, {.overlap = 3}), kCounted);
  EXPECT_EQ(count_of(svg, "fill=\"#a1beea\""), 9u);  // forwards of the second chunk, and the legend
  EXPECT_GT(count_of(svg, "height=\"12.2\""), 2u);
  const std::string serial = timeline_svg(schedule, simulate(schedule, {}), kCounted);
  EXPECT_EQ(count_of(serial, "height=\"12.2\""), 0u);
}

TEST(TimelineSvg, NumbersOnlyWhatIsWideEnough) {
  const Schedule schedule = one_f_one_b(2, 1000);
  EXPECT_EQ(count_of(timeline_svg(schedule, simulate(schedule, {}), kCounted), "class=\"on\""), 0u);
}

// 16 ranks and 64 micro-batches: the picture grows wider instead of losing its numbers.
TEST(TimelineSvg, StaysReadableWithManyRanksAndMicroBatches) {
  for (const Schedule& schedule : {one_f_one_b(16, 64), zb_h1(16, 64), zb_v(16, 64)}) {
    size_t actions = 0;
    for (const std::vector<Action>& rank : schedule.ranks) actions += rank.size();
    const std::string svg = timeline_svg(schedule, simulate(schedule, {}), kCounted);
    EXPECT_EQ(count_of(svg, "class=\"on\"") + count_of(svg, "class=\"ondark\""), actions)
        << schedule.name;
    EXPECT_EQ(count_of(svg, ">rank 15<"), 2u);
  }
}

// Rank 1 of 2: idle for one unit before its first forward, and after its last backward.
TEST(TimelineSvg, ShadesFillAndDrain) {
  const Schedule schedule = gpipe(2, 2);
  const std::string svg = timeline_svg(schedule, simulate(schedule, {}), kCounted);
  EXPECT_EQ(count_of(svg, "class=\"fills\""), 3u);  // a row each, and the legend
  EXPECT_EQ(count_of(svg, "class=\"drains\""), 3u);
  // 9 units of 1020 / 9 pixels: rank 0 has its first backward at 5 and its last forward until 2,
  // so the shade of fill ends at 5, where that of drain begins; rank 1 at 3.
  for (const char* shade :
       {"x=\"70\" y=\"64\" width=\"566.667\" height=\"25.2\" class=\"fills\"",
        "x=\"636.667\" y=\"64\" width=\"453.333\" height=\"25.2\" class=\"drains\"",
        "x=\"70\" y=\"95\" width=\"340\" height=\"25.2\" class=\"fills\""})
    EXPECT_EQ(count_of(svg, shade), 1u) << shade << "\n" << svg;
}

TEST(TimelineSvg, EscapesTheNameAndRefusesWhatCannotBeDrawn) {
  Schedule schedule = gpipe(1, 1);
  schedule.name = "a<b> & \"c\"\n";
  const std::string svg = timeline_svg(schedule, simulate(schedule, {}), kCounted);
  EXPECT_EQ(count_of(svg, "a&lt;b&gt; &amp; &quot;c&quot; : 1 rank, 1 micro-batch, "), 2u);
  EXPECT_EQ(svg.find("a<b>"), std::string::npos);
  const Schedule large = gpipe(64, 1024);
  EXPECT_ERROR(timeline_svg(large, simulate(large, {}), kCounted), Usage, "131072 actions");
  EXPECT_ERROR(timeline_svg(schedule, simulate(schedule, {.stages = {{0, 0, 0}}}), kCounted), Usage,
               "no length");
}

// docs/simulate.md has the commands that draw them.
TEST(TimelineSvg, TheDrawingsInTheDocumentsAreCurrent) {
  const auto expect_drawn = [](const std::string& name, const Schedule& schedule,
                               const Costs& costs) {
    expect_same_picture(source_dir() + "/docs/schedules/" + name + ".svg",
                        timeline_svg(schedule, simulate(schedule, costs), kCounted));
  };
  expect_drawn("gpipe", gpipe(4, 8), {});
  Schedule reversed = gpipe(4, 8);  // as the paper draws it
  reversed.name = "gpipe-reversed";
  for (std::vector<Action>& actions : reversed.ranks)
    for (Action& action : actions)
      if (action.kind == Kind::B) action.micro = 7 - action.micro;
  expect_drawn("gpipe-reversed", reversed, {});
  expect_drawn("1f1b", one_f_one_b(4, 8), {});
  expect_drawn("interleaved", interleaved(4, 8, 2, 4), {});
  expect_drawn("looped-bfs", looped_bfs(4, 8, 2), {});
  expect_drawn("zb-h2", zb_h2(4, 8), {});
  expect_drawn("interleaved-zb", interleaved_zb(4, 8, 2, 4), {});
  expect_drawn("v-half", v_half(4, 8), {});
  expect_drawn("v-min", v_min(4, 8), {});
  expect_drawn("dualpipe", dualpipe(4, 8), {});
  expect_drawn("zb-h1", zb_h1(4, 8), {});
  expect_drawn("zb-v", zb_v(4, 8), {});
  expect_drawn("dualpipe-v", dualpipe_v(4, 10), {.overlap = 2.5});
}

TEST(TimelineSpans, BecomeAChromeTrace) {
  const Schedule schedule = zb_v(2, 3);
  const std::vector<Span> spans = timeline_spans(schedule, simulate(schedule, {}));
  ASSERT_EQ(spans.size(), 36u);
  EXPECT_EQ(spans[3].name, "f0 stage 3");
  EXPECT_EQ(spans[3].begin, 3);
  EXPECT_EQ(spans[3].end, 4);
  EXPECT_EQ(spans[18].rank, 1);
  EXPECT_NE(chrome_trace(spans).find("\"name\":\"f0 stage 3\""), std::string::npos);
}

}  // namespace
}  // namespace sextant
