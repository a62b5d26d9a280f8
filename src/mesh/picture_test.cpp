#include "mesh/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "support/built.h"
#include "support/same_picture.h"

namespace sextant {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(MeshPicture, ReplicasAreRowsAndShardsAreColumns) {
  EXPECT_EQ(mesh_picture({{1, 1, 3, 2, 1}}),
            "mesh: dp2 x shard3 = 6 ranks\n"
            "  shard   0   1   2\n"
            "        ┌───┬───┬───┐\n"
            "   dp 0 │ 0 │ 1 │ 2 │\n"
            "        ├───┼───┼───┤\n"
            "   dp 1 │ 3 │ 4 │ 5 │\n"
            "        └───┴───┴───┘\n"
            "  dp     3 groups of 2: {0 3} {1 4} {2 5}\n"
            "  shard  2 groups of 3: {0 1 2} {3 4 5}\n"
            "  data   1 group of 6: {0 1 2 3 4 5}\n");
}

TEST(MeshPicture, OneAxisAndOneRankAreARow) {
  EXPECT_EQ(mesh_picture({{1, 1, 1, 2, 1}}),
            "mesh: dp2 = 2 ranks\n"
            "  dp   0   1\n"
            "     ┌───┬───┐\n"
            "     │ 0 │ 1 │\n"
            "     └───┴───┘\n"
            "  dp     1 group of 2: {0 1}\n");
  EXPECT_EQ(mesh_picture({}),
            "mesh: 1 rank\n"
            "   ┌───┐\n"
            "   │ 0 │\n"
            "   └───┘\n");
}

TEST(MeshPicture, ThePublishedSixteenRanksShowAllTheirAxes) {
  const std::string picture = mesh_picture({{2, 1, 1, 4, 2}});
  EXPECT_NE(picture.find("  pp 1 dp 2 │ 12 │ 13 │\n"), std::string::npos) << picture;
  EXPECT_NE(picture.find("  dp     4 groups of 4: {0 2 4 6} {1 3 5 7} {8 10 12 14} {9 11 13 15}\n"),
            std::string::npos)
      << picture;
}

TEST(MeshPicture, GroupsOfExpertsAreShownWhereTheyAreSpread) {
  const std::string whole = mesh_picture({{1, 1, 1, 8, 1}, 2});
  EXPECT_NE(whole.find("  ep     4 groups of 2: {0 1} {2 3} {4 5} {6 7}\n"), std::string::npos);
  EXPECT_EQ(whole.find("etp"), std::string::npos);
  const std::string parts = mesh_picture({{1, 1, 1, 8, 1}, 2, 2});
  EXPECT_NE(parts.find("  etp    4 groups of 2: {0 1} {2 3} {4 5} {6 7}\n"
                       "  ep     4 groups of 2: {0 2} {1 3} {4 6} {5 7}\n"
                       "  edp    4 groups of 2: {0 4} {1 5} {2 6} {3 7}\n"),
            std::string::npos)
      << parts;
  const std::string svg = mesh_svg({{1, 1, 1, 8, 1}, 2, 2});
  EXPECT_EQ(count(svg, "<g>"), 4u);
  for (const char* title : {">etp: 4 groups of 2<", ">ep: 4 groups of 2<", ">edp: 4 groups of 2<"})
    EXPECT_NE(svg.find(title), std::string::npos) << title;
}

TEST(MeshPicture, SixtyFourRanksAreAllThereAndMoreAreCut) {
  const std::string whole = mesh_picture({{1, 1, 8, 8, 1}});
  EXPECT_EQ(whole.substr(0, whole.find("  dp ")).find("…"), std::string::npos);
  EXPECT_NE(whole.find("│ 63 │"), std::string::npos);
  const std::string cut = mesh_picture({{1, 1, 64, 32, 1}});
  EXPECT_LT(std::ranges::count(cut, '\n'), 24);
  EXPECT_NE(cut.find("dp 31 │ 1984 │"), std::string::npos) << cut;
  EXPECT_NE(cut.find("{0 1 2 … 63}"), std::string::npos);
  EXPECT_NE(cut.find("… and 24 more"), std::string::npos);
}

TEST(MeshSvg, HasOnePanelForEachAxisAndOneColourForEachGroup) {
  const std::string svg = mesh_svg({{1, 1, 3, 2, 1}});
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(count(svg, "<g>"), 2u);
  EXPECT_EQ(count(svg, "rx=\"5\""), 12u);  // six ranks twice
  // The first colour: one dp group of 2, and one shard group of 3.
  const size_t fill = svg.find("rx=\"5\" fill=\"") + 13;
  EXPECT_EQ(count(svg, svg.substr(fill, 7)), 5u);
  EXPECT_NE(svg.find(">dp: 3 groups of 2<"), std::string::npos);
  // tp inside cp inside shard: 8 columns in 2 shards of 2 cp ranks of 2, in each of 2 rows, drawn
  // for each of 4 axes.
  const std::string nested = mesh_svg({{2, 2, 2, 2, 1}});
  EXPECT_EQ(count(nested, "stroke=\"#8c959f\""), 4u * 2u * 4u);
  EXPECT_EQ(count(nested, "stroke=\"#57606a\""), 4u * 2u * 2u);
  EXPECT_EQ(count(mesh_svg({{1, 1, 3, 2, 1}}), "rx=\"7\""), 0u);
  EXPECT_EQ(count(mesh_svg({}), "rx=\"5\""), 1u);
}

TEST(MeshSvg, TheDrawingInTheDocumentsIsCurrent) {
  expect_same_picture(source_dir() + "/docs/mesh.svg", mesh_svg({{1, 1, 4, 2, 1}}));
  expect_same_picture(source_dir() + "/docs/mesh-nested.svg", mesh_svg({{2, 2, 2, 1, 2}}));
}

}  // namespace
}  // namespace sextant
