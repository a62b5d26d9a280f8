#include "train/plan_dry_run.h"

#include <map>
#include <memory>

#include "base/error.h"
#include "base/parse.h"
#include "config/load.h"
#include "train/preflight.h"

namespace sextant {
namespace {

// What ranks with smaller shards, which are not run, may reserve beyond the others: alignment.
constexpr int64_t kOtherShards = 1 << 20;
constexpr int64_t kRefused = 3'000'000;  // operations of a dry run that took too many, about

// What decides how many operations a dry run takes.
std::string length_of(const PlanRequest& request, const Layout& l) {
  return concat(name_of(l.schedule), " ", l.chunks, " ", l.pp, " ",
                request.batch / (l.data_ranks() * l.micro), " ", l.cp, name_of(l.cp_kind), " ",
                l.shard > 1, " ", name_of(l.recompute));
}

using TooLong = std::map<std::string, std::string>;  // why, by length_of

DryRun dry_run(const PlanRequest& request, const Layout& layout, TooLong& too_long) {
  DryRun out;
  const std::string length = length_of(request, layout);
  const auto known = too_long.find(length);
  if (known != too_long.end()) {
    out.refused = known->second;
    return out;
  }
  try {
    const std::vector<std::string> none;
    const Config config = parse_config(to_run_file(request, layout), "plan", none).config;
    const LargestNeed need = largest_need(config);
    out.reserved = need.reserved;
    out.operations = need.operations;
    if (need.reserved + kOtherShards > config.run.memory_limit)
      out.refused = concat("needs ", format_bytes(need.reserved), " of ",
                           format_bytes(config.run.memory_limit));
  } catch (const Error& error) {
    out.refused = error.what();
    out.operations = kRefused;
    if (out.refused.find("operations") != std::string::npos) too_long[length] = out.refused;
  }
  return out;
}

}  // namespace

DryRunner dry_runner() {
  const auto too_long = std::make_shared<TooLong>();
  return [too_long](const PlanRequest& request, const Layout& layout) {
    return dry_run(request, layout, *too_long);
  };
}

}  // namespace sextant
