#include "formats/chrome_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace sextant {
namespace {

TEST(ChromeTrace, HasAProcessForEachRankAndARowForEachLane) {
  const std::vector<Span> spans = {{"compute", "forward \"x\"", 1, 0, 10.5, 10.75},
                                   {"comm", "all_reduce", 1, 1, 10.625, 11},
                                   {"wait", "all_reduce", 0, 0, 10.25, 10.5}};
  const nlohmann::json trace = nlohmann::json::parse(chrome_trace(spans));
  std::vector<std::string> names;
  std::vector<nlohmann::json> work;
  for (const nlohmann::json& event : trace["traceEvents"])
    if (event["ph"] == "M")
      names.push_back(event["args"]["name"]);
    else
      work.push_back(event);
  EXPECT_EQ(names, (std::vector<std::string>{"rank 0", "compute", "rank 1", "compute", "courier"}));
  ASSERT_EQ(work.size(), 3u);
  EXPECT_EQ(work[0]["name"], "forward \"x\"");
  EXPECT_EQ(work[0]["pid"], 1);
  EXPECT_EQ(work[0]["ts"], 250000);  // after the first span, in microseconds
  EXPECT_EQ(work[0]["dur"], 250000);
  EXPECT_EQ(work[1]["tid"], 1);
  EXPECT_EQ(work[2]["ts"], 0);
}

TEST(ChromeTrace, OfNothingIsAnEmptyTrace) {
  EXPECT_TRUE(nlohmann::json::parse(chrome_trace({}))["traceEvents"].empty());
}

}  // namespace
}  // namespace sextant
