#include "cli/simulate_flow.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

// "17x1.5": rank 17, 1.5 times slower.
std::optional<SlowPart> parse_slow(const char* option, const std::string& text) {
  if (text.empty()) return {};
  const std::vector<std::string> parts = split(text, 'x');
  const std::optional<int64_t> rank = parse_int(parts[0]);
  const double factor = parts.size() == 2 ? parse_double(parts[1]).value_or(0) : 0;
  SXT_CHECK(rank && *rank >= 0 && factor >= 1 && factor <= 1e6, Usage, option, " ", text,
            ": takes a rank and the factor by which it is slower, from 1 on, such as 17x1.5");
  return SlowPart{*rank, factor};
}

}  // namespace

FlowReport simulate_flow_step(const Case& asked, double planned, const SimulateArguments& arguments,
                              const Clock& clock) {
  const double start = clock.now();
  FlowStepRequest request{asked, parse_slow("--slow-rank", arguments.slow_rank),
                          parse_slow("--slow-link", arguments.slow_link)};
  FlowReport report{flow_step_time(request, Constants{}), planned};
  report.took = clock.now() - start;
  return report;
}

Json to_json(const FlowReport& report) {
  const FlowResult& flow = report.step.flow;
  Json levels = Json::array();
  for (const LevelLoad& level : report.step.levels)
    levels.push_back({{"level", level.level},
                      {"links", level.links},
                      {"mean", level.mean},
                      {"most", level.most}});
  return {{"step_s", flow.seconds},
          {"planned_s", report.planned},
          {"ranks", flow.finished.size()},
          {"channels", report.step.channels},
          {"links", flow.link_bytes.size()},
          {"classes",
           {{"ranks", flow.rank_classes},
            {"channels", flow.channel_classes},
            {"links", flow.link_classes}}},
          {"events", flow.events},
          {"levels", levels},
          {"seconds", report.took}};
}

std::string to_text(const FlowReport& report) {
  const FlowResult& flow = report.step.flow;
  std::string out = fmt::format(
      "flows        {:.4g} s; the planner says {:.4g} s\n"
      "             {} ranks, {} groups, {} links in {} + {} + {} classes, {} events, {:.2f} s\n",
      flow.seconds, report.planned, flow.finished.size(), report.step.channels,
      flow.link_bytes.size(), flow.rank_classes, flow.channel_classes, flow.link_classes,
      flow.events, report.took);
  for (const LevelLoad& level : report.step.levels)
    out += fmt::format("  {:<24} {:>6.2f} % of the step, the busiest link {:.2f} %\n", level.level,
                       100 * level.mean, 100 * level.most);
  return out;
}

void refuse_flow_options(const SimulateArguments& arguments) {
  refuse_options({{"--slow-rank", arguments.slow_rank}, {"--slow-link", arguments.slow_link}},
                 "only --flow has single ranks and links");
}

}  // namespace sextant::cli
