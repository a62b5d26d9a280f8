#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plan/constants.h"
#include "plan/run_table.h"

namespace sextant {

// A 90 % interval as factors of the predicted value.
struct ErrorInterval {
  double low = 1, high = 1;
};
// From the errors of runs that the fit had not seen (leave one source out), by kind of case.
// `assumed_hardware`: a GPU without runs in the table, or taken for another.
ErrorInterval error_interval(const Case& asked, bool assumed_hardware);

// In what a case lies outside the runs with a step time that the constants were fitted to, such as
// "16384 GPUs (at most 3072)".
std::vector<std::string> beyond_table(const Case& asked);
// The same in words for a user, and whether the GPU has runs in the table at all.
std::vector<std::string> table_warnings(const Case& asked);

struct RunPrediction {
  std::string id;
  double step_s = 0;
  ErrorInterval interval;
  double mem_gib = 0;  // allocated
  double total_gib = 0;
  bool fits = false;
  std::vector<std::string> assumed;
};

struct ErrorSummary {
  int n = 0;
  double mape = 0;           // mean |error|, as a fraction
  double median_signed = 0;  // predicted / measured - 1
  double worst = 0;
  std::string worst_id;
};

// Positive: ran out of memory.
struct FitCounts {
  int true_positive = 0, false_positive = 0, true_negative = 0, false_negative = 0;
  int all() const { return true_positive + false_positive + true_negative + false_negative; }
  double right() const;
  double wrong_fits() const;
};

// Search problems: runs of one model, sequence, GPU, GPU count, kernel, batch and number format.
// The pick is the run predicted to be fastest among those predicted to fit.
struct Regret {
  int problems = 0;
  int failed = 0;  // picks that ran out of memory
  double mean = 0, worst = 0;
  std::string worst_id;
};

struct TableEvaluation {
  std::vector<RunPrediction> rows;
  std::map<std::string, ErrorSummary> sources;  // as the table names them
  std::map<std::string, ErrorSummary> origins;  // repositories and papers
  ErrorSummary all, memory;
  FitCounts fits;
  Regret regret;
};

TableEvaluation evaluate_runs(Storage& storage, std::span<const PublishedRun> runs,
                              const Constants& constants);

// Each repository or paper predicted with constants fitted to all the others, from the middle of
// their ranges on; those of memory are taken from `start`.
struct LeftOut {
  std::map<std::string, ErrorSummary> origins;
  ErrorSummary all;
  double coverage = 0;                                    // share of runs inside their interval
  std::vector<std::pair<std::string, double>> predicted;  // id, seconds
};
LeftOut leave_one_out(Storage& storage, std::span<const PublishedRun> runs, const Constants& start);

// Constants fitted to all scored runs, every repository or paper with the same weight.
Constants fit_to_runs(Storage& storage, std::span<const PublishedRun> runs, const Constants& start,
                      const std::string& without_origin);

}  // namespace sextant
