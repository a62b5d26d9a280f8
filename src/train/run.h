#pragma once
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/storage.h"
#include "checkpoint/directory.h"
#include "config/load.h"
#include "tensor/arena.h"
#include "train/record.h"

namespace sextant {

// How a run begins and how far it goes.
struct RunOptions {
  std::string from;                             // checkpoint whose weights it starts from, or ""
  bool resume = false;                          // go on from checkpoint.dir
  std::string resume_from = kLatestCheckpoint;  // see find_checkpoint
  bool dry_run = false;                         // stop after the pre-flight table
  double peak_flops = 0;                        // of the machine, for MFU
};

// The seams and switches of a run. `stop` set from a signal ends it after the current step;
// under optim.post_validation, where no rank waits for all others in every step, two steps later.
struct RunContext {
  Storage& storage;
  const Clock& clock;
  Log& log;
  const std::atomic<bool>& stop;
};

struct RankMemory {
  int rank = 0;
  int64_t peak = 0;      // most bytes of the rank's tensors at one time
  int64_t reserved = 0;  // of its arena
  int64_t outside = 0;   // of the process, beyond the arenas of its ranks; told by its first
  CategoryBytes categories{};
};

struct RunResult {
  int64_t steps = 0;                            // done, those before a resume included
  std::optional<double> loss_first, loss_last;  // of the steps made now
  std::optional<double> eval_loss;
  std::vector<RankMemory> memory;  // measured; predicted after a dry run
  bool stopped = false;            // by `stop`, after saving
  std::string checkpoint;          // directory of checkpoints
};

// The whole of `sextant train`: pre-flight table, steps, metrics, evaluations, checkpoints.
RunResult run_training(const ResolvedConfig& resolved, const RunOptions& options,
                       const RunContext& context);

std::string checkpoint_directory(const Config& config);

}  // namespace sextant
