#include "formats/chrome_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "support/expect_error.h"

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
  EXPECT_EQ(names, (std::vector<std::string>{"rank 0", "compute", "rank 1", "compute",
                                             "progress thread"}));
  ASSERT_EQ(work.size(), 3u);
  EXPECT_EQ(work[0]["name"], "forward \"x\"");
  EXPECT_EQ(work[0]["pid"], 1);
  EXPECT_EQ(work[0]["ts"], 250000);  // after the first span, in microseconds
  EXPECT_EQ(work[0]["dur"], 250000);
  EXPECT_EQ(work[1]["tid"], 1);
  EXPECT_EQ(work[2]["ts"], 0);
}

TEST(ChromeTrace, HasBytesAndArrowsFromSendsToReceives) {
  const std::vector<Span> spans = {{"comm", "send pp #1", 0, 1, 1, 2, 64, "pp 0>1 #1"},
                                   {"comm", "receive pp #1", 1, 0, 0.5, 2.5, 64, "pp 0>1 #1", true},
                                   {"comm", "send pp #2", 0, 1, 3, 4, 32, "pp 0>1 #2"}};
  std::vector<nlohmann::json> begins, ends;
  const nlohmann::json trace = nlohmann::json::parse(chrome_trace(spans));
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == "s") begins.push_back(event);
    if (event["ph"] == "f") ends.push_back(event);
    if (event["ph"] != "X") continue;
    EXPECT_EQ(event["args"]["bytes"], event["name"] == "send pp #2" ? 32 : 64);
  }
  ASSERT_EQ(begins.size(), 2u);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(begins[0]["id"], ends[0]["id"]);
  EXPECT_NE(begins[0]["id"], begins[1]["id"]);
  EXPECT_EQ(begins[0]["pid"], 0);
  EXPECT_EQ(begins[0]["tid"], 1);
  EXPECT_EQ(ends[0]["pid"], 1);
  EXPECT_GT(ends[0]["ts"], begins[0]["ts"]);
  EXPECT_LT(ends[0]["ts"], 2e6);  // in its span, which begins at the trace's start
}

TEST(ChromeTrace, HasLanesFactsAndArrowsToWhatWaits) {
  Span gather{"comm", "all_gather", 3, 2, 1, 2, 64};
  gather.lane_name = "shard";
  gather.facts = {{"flops", 0.5}, {"op", 7}, {"writes", 0, {"f32 [4]", "f32 [2, 2]"}}};
  Span work{"compute", "matmul", 3, 0, 4, 5};
  work.waits = {{2, 1, 2}};
  const nlohmann::json trace = nlohmann::json::parse(chrome_trace(std::vector{gather, work}));
  std::vector<nlohmann::json> arrows;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == "s" || event["ph"] == "f") arrows.push_back(event);
    if (event["name"] == "thread_name") {
      EXPECT_EQ(event["args"]["name"], event["tid"] == 2 ? "shard" : "compute");
    }
    if (event["name"] != "all_gather") continue;
    EXPECT_EQ(event["args"].dump(),
              R"({"bytes":64,"flops":0.5,"op":7,"writes":["f32 [4]","f32 [2, 2]"]})");
  }
  ASSERT_EQ(arrows.size(), 2u);
  EXPECT_EQ(arrows[0]["ph"], "s");
  EXPECT_EQ(arrows[0]["id"], arrows[1]["id"]);
  EXPECT_EQ(arrows[0]["tid"], 2);
  EXPECT_GT(arrows[0]["ts"], 0);  // in the gather, which begins the trace
  EXPECT_LT(arrows[0]["ts"], 1e6);
  EXPECT_EQ(arrows[1]["tid"], 0);
  EXPECT_EQ(arrows[1]["ts"], 3e6);
}

TEST(ChromeTrace, OfNothingIsAnEmptyTrace) {
  EXPECT_TRUE(nlohmann::json::parse(chrome_trace({}))["traceEvents"].empty());
}

TEST(ChromeTrace, IsReadBackAsItWas) {
  const std::vector<Span> spans = {{"compute", "F of stage 0, micro 1", 1, 0, 1000.5, 1000.75},
                                   {"comm", "send", 1, 1, 1000.625, 1001},
                                   {"wait", "receive", 0, 0, 1000.25, 1000.5},
                                   {"optimizer", "adamw", 0, 0, 1001, 1001}};
  const std::vector<Span> read = read_chrome_trace(chrome_trace(spans), "trace.json");
  ASSERT_EQ(read.size(), spans.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_STREQ(read[i].kind, spans[i].kind);
    EXPECT_EQ(read[i].name, spans[i].name);
    EXPECT_EQ(read[i].rank, spans[i].rank);
    EXPECT_EQ(read[i].lane, spans[i].lane);
    EXPECT_DOUBLE_EQ(read[i].begin, spans[i].begin);
    EXPECT_DOUBLE_EQ(read[i].end, spans[i].end);
  }
}

TEST(ChromeTrace, TakesEventsOfOtherProgramsAndSkipsWhatIsNoSpan) {
  const std::vector<Span> read = read_chrome_trace(
      R"({"traceEvents":[{"ph":"M","name":"process_name","pid":0,"args":{}},
          {"ph":"X","name":"mine","cat":"gpu","pid":3,"tid":7,"ts":2000000,"dur":500000}]})",
      "trace.json");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_STREQ(read[0].kind, "");
  EXPECT_EQ(read[0].rank, 3);
  EXPECT_EQ(read[0].lane, 7);
  EXPECT_DOUBLE_EQ(read[0].begin, 2);
  EXPECT_DOUBLE_EQ(read[0].end, 2.5);
}

TEST(ChromeTrace, ThatIsBrokenIsRefusedWithTheReason) {
  const std::string whole = chrome_trace(std::vector<Span>{{"compute", "x", 0, 0, 1, 2}});
  EXPECT_ERROR(read_chrome_trace(whole.substr(0, whole.size() / 2), "trace.json"), Data,
               "trace.json");
  EXPECT_ERROR(read_chrome_trace("", "trace.json"), Data, "trace.json");
  EXPECT_ERROR(read_chrome_trace("[1, 2]", "trace.json"), Data, "no list of traceEvents");
  EXPECT_ERROR(
      read_chrome_trace(R"({"traceEvents":[],"otherData":{"start_s":"now"}})", "trace.json"), Data,
      "start_s of the trace is no number");
  const std::pair<const char*, const char*> events[] = {
      {"5", "event 0 of the trace is no object"},
      {R"({"name":"x"})", "event 0 of the trace has no ph"},
      {R"({"ph":"X","name":5,"pid":0,"tid":0,"ts":0,"dur":0})", "name is no text"},
      {R"({"ph":"X","name":"x","pid":0.5,"tid":0,"ts":0,"dur":0})", "pid is 0.5"},
      {R"({"ph":"X","name":"x","pid":0,"tid":0,"ts":"soon","dur":0})", "ts is no number"},
      {R"({"ph":"X","name":"x","pid":0,"tid":0,"ts":0})", "has no dur"},
      {R"({"ph":"X","name":"x","pid":0,"tid":0,"ts":0,"dur":-1})", "dur is below 0"}};
  for (const auto& [event, reason] : events)
    EXPECT_ERROR(read_chrome_trace(concat("{\"traceEvents\":[", event, "]}"), "trace.json"), Data,
                 reason);
}

}  // namespace
}  // namespace sextant
