#include "schedule/make_schedule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parse.h"
#include "schedule/generators.h"
#include "schedule/validate.h"

namespace sextant {
namespace {

constexpr int64_t kMaxActions = int64_t{1} << 24;  // stages * micros; a few hundred MB

using Request = const ScheduleRequest&;
struct Entry {
  ScheduleInfo info;
  int chunks;                 // per rank; 0: as requested
  bool has_groups;            // of micro-batches
  Schedule (*make)(Request);  // defaults are set, one cost per stage
};

bool is_valid_micro_group(int ranks, int micros, int group) {
  return group >= ranks && group <= micros && (micros % group == 0 || micros % group >= ranks);
}

int group_of(Request request) {
  const int p = request.ranks, m = request.micros;
  const int group = request.micro_group == 0 ? p : request.micro_group;
  SXT_CHECK(m >= p, Config, request.name, ": ", m, " micros on ", p,
            " ranks; it needs at least as many micros as ranks, or use looped-bfs");
  if (is_valid_micro_group(p, m, group)) return group;
  SXT_FAIL(Config, request.name, ": ", m, " micros in groups of ", group, " on ", p,
           " ranks; groups of ", smallest_micro_group(p, m), " would work, or ", m - m % p, " or ",
           m - m % p + p, " micros in groups of ", p);
}

void check_dualpipe(Request request) {
  const int p = request.ranks, m = request.micros;
  SXT_CHECK(m >= 2 * p, Config, request.name, ": ", m, " micros on ", p,
            " ranks; it needs at least twice as many micros as ranks, ", 2 * p);
}

double search_limit(Request request) {
  if (request.memory_limit > 0) return request.memory_limit;
  return 2 * request.ranks *
         std::ranges::max(request.costs, {}, &StageCost::activation_memory).activation_memory;
}

// zb-v searches with equal stages: the mean of their times, the maximum of their memory.
StageCost typical(const std::vector<StageCost>& costs) {
  StageCost out = {0, 0, 0, 0, 0};
  const auto count = static_cast<double>(costs.size());
  for (const StageCost& cost : costs) {
    out.forward_time += cost.forward_time / count;
    out.input_grad_time += cost.input_grad_time / count;
    out.weight_grad_time += cost.weight_grad_time / count;
    out.activation_memory = std::max(out.activation_memory, cost.activation_memory);
    out.memory_for_weight_grad = std::max(out.memory_for_weight_grad, cost.memory_for_weight_grad);
  }
  return out;
}

Schedule make_zb_v(Request request) {
  const StageCost& first = request.costs.front();
  const bool equal = std::ranges::all_of(request.costs, [&](const StageCost& cost) {
    return cost.forward_time == first.forward_time && cost.input_grad_time == first.forward_time &&
           cost.weight_grad_time == first.forward_time;
  });
  if (equal && request.message_time == 0 && request.memory_limit == 0)
    return zb_v(request.ranks, request.micros);
  const bool alike =
      std::ranges::all_of(request.costs, [&](const StageCost& cost) { return cost == first; });
  return zb_v_greedy(request.ranks, request.micros, alike ? first : typical(request.costs),
                     request.message_time, search_limit(request));
}

Schedule make_dualpipe(Request request) {
  SXT_CHECK(request.ranks % 2 == 0 && request.micros % 2 == 0, Config, "dualpipe: ", request.ranks,
            " ranks and ", request.micros, " micros; it runs in two directions and needs both even",
            request.ranks % 2 == 0 ? "" : ", or use dualpipe-v");
  check_dualpipe(request);
  return dualpipe(request.ranks, request.micros);
}

Schedule make_dualpipe_v(Request request) {
  check_dualpipe(request);
  return dualpipe_v(request.ranks, request.micros);
}

constexpr Entry kEntries[] = {
    {{"gpipe", "all forwards, then all backwards", Placement::Loop, false},
     1,
     false,
     [](Request r) { return gpipe(r.ranks, r.micros); }},
    {{"1f1b", "one forward, one backward: memory of at most ranks micros", Placement::Loop, false},
     1,
     false,
     [](Request r) { return one_f_one_b(r.ranks, r.micros); }},
    {{"interleaved", "1f1b over several chunks a rank: less idle time, more messages",
      Placement::Loop, false},
     0,
     true,
     [](Request r) { return interleaved(r.ranks, r.micros, r.chunks, group_of(r)); }},
    {{"looped-bfs", "all micros through a chunk in one run: weights gathered twice a step",
      Placement::Loop, false},
     0,
     false,
     [](Request r) { return looped_bfs(r.ranks, r.micros, r.chunks); }},
    {{"zb-h1", "1f1b with weight gradients in its gaps, same memory", Placement::Loop, true},
     1,
     false,
     [](Request r) { return zb_h1(r.ranks, r.micros); }},
    {{"zb-h2", "no gaps at equal times, twice the memory", Placement::Loop, true},
     1,
     false,
     [](Request r) { return zb_h2(r.ranks, r.micros); }},
    {{"interleaved-zb", "interleaved with weight gradients in its gaps", Placement::Loop, true},
     0,
     true,
     [](Request r) { return interleaved_zb(r.ranks, r.micros, r.chunks, group_of(r)); }},
    {{"zb-v", "no gaps at equal times with the memory of 1f1b, two chunks as a V", Placement::V,
      true},
     2,
     false,
     make_zb_v},
    {{"zb-auto", "searched for given times and memory limit", Placement::Loop, true},
     1,
     false,
     [](Request r) { return zb_auto(r.micros, r.costs, r.message_time, search_limit(r)); }},
    {{"v-half", "half the memory of 1f1b, two chunks as a V", Placement::V, true},
     2,
     false,
     [](Request r) { return v_half(r.ranks, r.micros); }},
    {{"v-min", "a third of the memory of 1f1b, two chunks as a V", Placement::V, true},
     2,
     false,
     [](Request r) { return v_min(r.ranks, r.micros); }},
    {{"dualpipe", "micros from both ends at once, forwards beside backwards, two copies",
      Placement::Dual, true},
     2,
     false,
     make_dualpipe},
    {{"dualpipe-v", "dualpipe folded at its middle, one copy", Placement::V, true},
     2,
     false,
     make_dualpipe_v},
};

const Entry& find_entry(const std::string& name) {
  for (const Entry& entry : kEntries)
    if (entry.info.name == name) return entry;
  const std::vector<std::string> names = schedule_names();
  const std::string hint = did_you_mean(name, names);
  SXT_FAIL(Config, "no schedule '", name, "'",
           hint.empty() ? "; there are " + join(names, ", ") : hint);
}

void check_numbers(Request request, int stages) {
  const auto is_time = [](double value) { return std::isfinite(value) && value >= 0; };
  SXT_CHECK(request.costs.size() == 1 || request.costs.size() == static_cast<size_t>(stages),
            Config, request.name, ": costs of ", request.costs.size(), " stages; give 1 or ",
            stages);
  for (const StageCost& cost : request.costs) {
    SXT_CHECK(is_time(cost.forward_time) && is_time(cost.input_grad_time) &&
                  is_time(cost.weight_grad_time),
              Config, request.name, ": times ", cost.forward_time, ", ", cost.input_grad_time, ", ",
              cost.weight_grad_time, "; they cannot be negative");
    SXT_CHECK(is_time(cost.activation_memory) && cost.activation_memory > 0 &&
                  cost.memory_for_weight_grad >= 0 &&
                  cost.memory_for_weight_grad <= cost.activation_memory,
              Config, request.name, ": a forward holds ", cost.activation_memory, ", of which ",
              cost.memory_for_weight_grad,
              " for the weights; the first has to be positive and the second a part of it");
  }
  SXT_CHECK(is_time(request.message_time), Config, request.name, ": messages take ",
            request.message_time, "; it cannot be negative");
  SXT_CHECK(is_time(request.memory_limit), Config, request.name, ": memory limit ",
            request.memory_limit, "; it cannot be negative");
}

// Checks what all schedules require, and sets defaults.
ScheduleRequest completed(Request asked, const Entry& entry) {
  ScheduleRequest request = asked;
  SXT_CHECK(request.ranks > 0 && request.micros > 0 && request.chunks > 0, Config, request.name,
            ": ", request.ranks, " ranks, ", request.micros, " micros, ", request.chunks,
            " chunks; each has to be at least 1");
  SXT_CHECK(entry.chunks == 0 || request.chunks == 1 || request.chunks == entry.chunks, Config,
            request.name, ": ", request.chunks, " chunks; it has ", entry.chunks,
            " a rank, interleaved and looped-bfs take any number");
  if (entry.chunks != 0) request.chunks = entry.chunks;
  SXT_CHECK(request.micro_group == 0 || entry.has_groups, Config, request.name, ": a group of ",
            request.micro_group, " micros; only interleaved schedules have groups");
  SXT_CHECK(request.micro_group >= 0, Config, request.name, ": a group of ", request.micro_group,
            " micros");
  const bool dual = entry.info.placement == Placement::Dual;
  const int64_t stages = int64_t{request.ranks} * (dual ? 1 : request.chunks);
  SXT_CHECK(stages <= kMaxActions && stages * request.micros <= kMaxActions, Config, request.name,
            ": ", stages, " stages and ", request.micros, " micros; together at most ",
            kMaxActions);
  check_numbers(request, static_cast<int>(stages));
  if (request.costs.size() == 1)
    request.costs.resize(static_cast<size_t>(stages), request.costs.front());
  return request;
}

}  // namespace

Schedule make_schedule(const ScheduleRequest& asked) {
  const Entry& entry = find_entry(asked.name);
  const ScheduleRequest request = completed(asked, entry);
  Schedule out = entry.make(request);
  validate(out);
  if (request.memory_limit > 0) check_memory(out, request.costs, request.memory_limit);
  return out;
}

int stage_count(const ScheduleRequest& asked) {
  const Entry& entry = find_entry(asked.name);
  const int chunks = completed(asked, entry).chunks;
  return entry.info.placement == Placement::Dual ? asked.ranks : asked.ranks * chunks;
}

int smallest_micro_group(int ranks, int micros) {
  if (micros < ranks) return 0;
  int group = ranks;
  while (!is_valid_micro_group(ranks, micros, group))
    ++group;  // ends: one group of all micros is valid
  return group;
}

std::vector<ScheduleInfo> schedule_table() {
  std::vector<ScheduleInfo> out;
  for (const Entry& entry : kEntries) out.push_back(entry.info);
  return out;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> out;
  for (const Entry& entry : kEntries) out.emplace_back(entry.info.name);
  return out;
}

}  // namespace sextant
