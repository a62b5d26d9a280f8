#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/storage.h"
#include "checkpoint/directory.h"
#include "config/load.h"
#include "trace/op_times.h"
#include "train/outside_memory.h"
#include "train/rank_totals.h"
#include "train/record.h"
#include "train/step_comparison.h"

namespace sextant {

struct RunResult;

// How a run starts and ends.
struct RunOptions {
  std::string from;     // checkpoint or Hugging Face directory it starts from, or ""
  bool resume = false;  // go on from checkpoint.dir
  std::string resume_from = std::string(kLatestName);  // see find_checkpoint
  bool dry_run = false;                                // stop after the pre-flight table
  double peak_flops = 0;                               // of the machine, for MFU
  OutsideTable outside = assumed_outside();            // memory beside the arenas on a GPU
  // Foretells a step, for the log and RunResult::compared. Called on the first rank's process.
  std::function<PredictedStep(const Preflight&)> predict = {};
  // Called before the Error(Memory) of a run that does not fit, to explain it. Without it the log
  // shows the pre-flight table.
  std::function<void(const Preflight&)> on_too_large = {};
  // Called in a dry run after the table, before data and checkpoints are checked.
  std::function<void(const Preflight&, const RunResult&)> on_dry_run = {};
};

// Environment of a run. Setting `stop` from a signal ends it after the current step; with
// optim.post_validation, where ranks do not synchronise in every step, two steps later.
struct RunContext {
  Storage& storage;
  const Clock& clock;
  Log& log;
  const std::atomic<bool>& stop;
};

struct RunResult {
  int64_t steps = 0;                            // including those before a resume
  std::optional<double> loss_first, loss_last;  // of the steps of this run
  std::optional<double> eval_loss;
  std::vector<RankMemory> memory;  // measured; predicted after a dry run
  StepSends sends;                 // of the last step; predicted after a dry run
  bool stopped = false;            // before its last step, after a checkpoint
  bool timed_out = false;          // stopped by train.max_hours
  // Steps since this start, their seconds and speed; on the first rank.
  int64_t steps_made = 0;
  double seconds = 0, tokens_per_s = 0, best_mfu = 0;
  std::string checkpoint;                     // directory of checkpoints
  std::optional<ComparedStep> compared = {};  // with RunOptions::predict, from two steps on
  // With run.trace on a GPU: of the last step whose operations were timed, on the first rank.
  std::optional<OpTable> operations = {};
};

// All of `sextant train`: pre-flight table, steps, metrics, evaluations, checkpoints.
RunResult run_training(const ResolvedConfig& resolved, const RunOptions& options,
                       const RunContext& context);

// What a run needs; throws as run_training if it does not fit.
Preflight fitting_forecast(const ResolvedConfig& resolved, const RunOptions& options,
                           const RunContext& context);

std::string checkpoint_directory(const Config& config);

}  // namespace sextant
