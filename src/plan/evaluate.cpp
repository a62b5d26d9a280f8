#include "plan/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parse.h"
#include "plan/fit.h"
#include "plan/memory.h"
#include "plan/step_time.h"

namespace sextant {
namespace {

constexpr int kRounds = 60;
constexpr int64_t kMostActions = 400'000;

// Errors of one group while they are collected.
class Errors {
 public:
  void add(const std::string& id, double predicted, double measured) {
    signed_.emplace_back(predicted / measured - 1, id);
  }
  ErrorSummary summary() const {
    ErrorSummary out;
    out.n = static_cast<int>(signed_.size());
    if (out.n == 0) return out;
    std::vector<double> sorted;
    for (const auto& [error, id] : signed_) {
      sorted.push_back(error);
      out.mape += std::abs(error) / out.n;
      if (std::abs(error) > out.worst) {
        out.worst = std::abs(error);
        out.worst_id = id;
      }
    }
    std::ranges::sort(sorted);
    const size_t half = sorted.size() / 2;
    out.median_signed =
        sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
    return out;
  }

 private:
  std::vector<std::pair<double, std::string>> signed_;
};

bool may_score(const PublishedRun& run) {
  return run.scored && run.step_s && *run.step_s > 0;
}

RunPrediction predict(const PublishedRun& run, const InferredCase& inferred,
                      const Constants& constants) {
  const Case& asked = inferred.asked;
  RunPrediction out;
  out.id = run.id;
  out.step_s = simulated_step_time(asked, constants, kMostActions).total();
  out.interval =
      error_interval(asked, !asked.hardware.validated || !asked.hardware.assumed.empty());
  const MemoryUse use = memory_use(asked, constants);
  out.mem_gib = use.allocated() / kGiB;
  out.total_gib = use.total() / kGiB;
  out.fits = fits(asked, use);
  out.assumed = inferred.assumed;
  return out;
}

std::string problem_of(const PublishedRun& run) {
  const auto text = [](const std::optional<double>& value) {
    return value ? concat(*value) : std::string("-");
  };
  return concat(run.model, "|", text(run.seq), "|", run.gpu, "|", text(run.gpus), "|", run.kernel,
                "|", text(run.gbs), "|", run.compute);
}

bool ran_out(const PublishedRun& run) {
  return run.oom && *run.oom == 1;
}

Regret search_problems(std::span<const PublishedRun> runs, const std::vector<RunPrediction>& rows) {
  std::map<std::string, std::vector<size_t>> problems;
  for (size_t i = 0; i < runs.size(); ++i)
    if (ran_out(runs[i]) || may_score(runs[i])) problems[problem_of(runs[i])].push_back(i);
  Regret out;
  double lost = 0;
  for (const auto& [name, members] : problems) {
    double best = INFINITY;
    size_t pick = members[0], smallest = members[0];
    double pick_time = INFINITY;
    for (const size_t i : members) {
      if (!ran_out(runs[i])) best = std::min(best, *runs[i].step_s);
      if (rows[i].total_gib < rows[smallest].total_gib) smallest = i;
      if (rows[i].fits && rows[i].step_s <= pick_time) {  // of equals the last listed
        pick_time = rows[i].step_s;
        pick = i;
      }
    }
    if (members.size() < 2 || best == INFINITY) continue;
    if (pick_time == INFINITY) pick = smallest;
    ++out.problems;
    if (ran_out(runs[pick])) {
      ++out.failed;
      continue;
    }
    const double loss = *runs[pick].step_s / best - 1;
    lost += loss;
    if (loss > out.worst) {
      out.worst = loss;
      out.worst_id = runs[pick].id;
    }
  }
  out.mean = out.problems > out.failed ? lost / (out.problems - out.failed) : 0;
  return out;
}

FitCounts count_fits(std::span<const PublishedRun> runs, const std::vector<RunPrediction>& rows) {
  FitCounts out;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].oom) continue;
    int& count = ran_out(runs[i]) ? (rows[i].fits ? out.false_negative : out.true_positive)
                                  : (rows[i].fits ? out.true_negative : out.false_positive);
    ++count;
  }
  return out;
}

std::map<std::string, ErrorSummary> summaries(const std::map<std::string, Errors>& groups) {
  std::map<std::string, ErrorSummary> out;
  for (const auto& [name, errors] : groups) out[name] = errors.summary();
  return out;
}

}  // namespace

double FitCounts::right() const {
  return all() == 0 ? 1 : static_cast<double>(true_positive + true_negative) / all();
}

double FitCounts::wrong_fits() const {
  return all() == 0 ? 0 : static_cast<double>(false_negative) / all();
}

ErrorInterval error_interval(const Case& asked, bool assumed_hardware) {
  // Quantiles of 5 and 95 % of predicted / measured, left out, turned round.
  ErrorInterval out =
      asked.shape.experts > 0 ? ErrorInterval{0.75, 1.45} : ErrorInterval{0.88, 1.2};
  if (assumed_hardware) {
    out.low *= 0.8;
    out.high *= 1.25;
  }
  return out;
}

std::vector<std::string> beyond_table(const Case& asked) {
  const Layout& l = asked.layout;
  struct Bound {
    double value, least, most;
    const char* unit;
  };
  const Bound bounds[] = {{static_cast<double>(l.world()), 8, 3072, " GPUs"},
                          {static_cast<double>(asked.shape.seq), 512, 262144, " tokens a sequence"},
                          {1.0 * l.cp, 1, 8, " ranks of cp"},
                          {1.0 * l.tp, 1, 8, " ranks of tp"},
                          {1.0 * l.pp, 1, 64, " ranks of pp"},
                          {1.0 * l.ep, 1, 64, " ranks of ep"},
                          {count_parameters(asked.shape).total / 1e9, 0.12, 1010, "B parameters"}};
  std::vector<std::string> out;
  for (const Bound& bound : bounds) {
    if (bound.value > bound.most)
      out.push_back(
          fmt::format("{:.10g}{} (at most {:.10g})", bound.value, bound.unit, bound.most));
    if (bound.value < bound.least)
      out.push_back(fmt::format("{:.4g}{} (at least {:g})", bound.value, bound.unit, bound.least));
  }
  return out;
}

std::vector<std::string> table_warnings(const Case& asked) {
  std::vector<std::string> out;
  if (!asked.hardware.validated)
    out.push_back(concat(asked.hardware.name,
                         " has no run in the calibration table: not validated, the interval is a "
                         "guess"));
  const std::vector<std::string> beyond = beyond_table(asked);
  if (!beyond.empty())
    out.push_back(
        concat("outside the runs that the planner was calibrated with: ", join(beyond, ", ")));
  return out;
}

TableEvaluation evaluate_runs(Storage& storage, std::span<const PublishedRun> runs,
                              const Constants& constants) {
  TableEvaluation out;
  std::map<std::string, Errors> sources, origins;
  Errors all, memory;
  for (const PublishedRun& run : runs) {
    const RunPrediction row = predict(run, infer_case(storage, run, constants), constants);
    if (may_score(run)) {
      for (Errors* group : {&sources[run.source], &origins[run.origin()], &all})
        group->add(run.id, row.step_s, *run.step_s);
    }
    // Bars of a paper's own formula are no measurement.
    if (run.mem_gib && *run.mem_gib > 0 && run.mem_kind.find("analytic") == std::string::npos)
      memory.add(run.id, row.mem_gib, *run.mem_gib);
    out.rows.push_back(row);
  }
  out.sources = summaries(sources);
  out.origins = summaries(origins);
  out.all = all.summary();
  out.memory = memory.summary();
  out.fits = count_fits(runs, out.rows);
  out.regret = search_problems(runs, out.rows);
  return out;
}

Constants fit_to_runs(Storage& storage, std::span<const PublishedRun> runs, const Constants& start,
                      const std::string& without_origin) {
  std::map<std::string, int> count;
  for (const PublishedRun& run : runs)
    if (may_score(run)) ++count[run.origin()];
  std::vector<Observation> seen;
  for (const PublishedRun& run : runs)
    if (may_score(run) && run.origin() != without_origin)
      seen.push_back(
          {infer_case(storage, run, start).asked, *run.step_s, 1.0 / count[run.origin()]});
  return fit_constants(seen, start, kRounds);
}

LeftOut leave_one_out(Storage& storage, std::span<const PublishedRun> runs,
                      const Constants& start) {
  LeftOut out;
  std::map<std::string, Errors> origins;
  Errors all;
  std::map<std::string, std::vector<const PublishedRun*>> members;
  for (const PublishedRun& run : runs)
    if (may_score(run)) members[run.origin()].push_back(&run);
  Constants middle = start;
  for (const ConstantInfo& info : constant_table())
    if (!info.memory) middle.*info.value = (info.least + info.most) / 2;
  int inside = 0, count = 0;
  for (const auto& [origin, its_runs] : members) {
    // From the middle of the ranges: the published values have seen what is left out.
    const Constants fitted = fit_to_runs(storage, runs, middle, origin);
    for (const PublishedRun* run : its_runs) {
      const RunPrediction row = predict(*run, infer_case(storage, *run, fitted), fitted);
      const double measured = *run->step_s;
      origins[origin].add(run->id, row.step_s, measured);
      all.add(run->id, row.step_s, measured);
      out.predicted.emplace_back(run->id, row.step_s);
      ++count;
      if (measured >= row.interval.low * row.step_s && measured <= row.interval.high * row.step_s)
        ++inside;
    }
  }
  out.origins = summaries(origins);
  out.all = all.summary();
  out.coverage = count == 0 ? 0 : static_cast<double>(inside) / count;
  return out;
}

}  // namespace sextant
