#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/evaluate.h"
#include "plan/memory.h"
#include "plan/step_time.h"

namespace sextant {

// What a user may fix; what is absent is searched.
struct FixedAxes {
  std::optional<int64_t> dp, shard, zero, tp, cp, pp, chunks, ep, etp, micro;
  std::optional<ScheduleKind> schedule;
  std::optional<Recompute> recompute;
  std::optional<ContextKind> cp_kind;
  std::optional<Offload> offload;
  std::optional<bool> sequence;
};
// "tp=8,pp=4,schedule=1f1b,recompute=full". Error(Usage) for an unknown axis or value.
FixedAxes parse_fixed(const std::string& text);

struct PlanRequest;
// What the dry run of `train` says of a layout: what the fullest rank reserves, or why it does not
// run.
struct DryRun {
  int64_t reserved = 0;
  std::string refused;
  int64_t operations = 0;  // of the phantom device
};
using DryRunner = std::function<DryRun(const PlanRequest&, const Layout&)>;

struct PlanRequest {
  ModelShape shape;
  std::string preset;  // of the model, for the configuration; "": no configuration is checked
  Hardware hardware;
  int64_t gpus = 1;
  int64_t batch = 0;          // sequences per step
  double critical_batch = 0;  // tokens from which on larger batches learn no faster; 0: not known
  Numerics numerics;
  Practice practice;
  FixedAxes fixed;
  int plans = 10;     // how many to return
  int refined = 100;  // how many to simulate, beside the best of each schedule and pp
  DryRunner dry_run;  // which every plan must pass; null: none
};

struct Plan {
  Layout layout;
  StepTerms time;
  MemoryUse memory;
  double tokens_per_s = 0, mfu = 0;
  ErrorInterval interval;
  bool fits = true;
  std::optional<int64_t> reserved = {};  // by the dry run, of the fullest rank
  std::optional<double> exact = {};      // seconds by the costed trace of the program, where known
};

struct RejectedLayout {
  Layout layout;
  std::string reason;
};

struct PlanResult {
  std::vector<Plan> plans;  // that fit and that the program can run, by step time
  std::vector<Plan> front;  // by memory, in closed form: each is faster than all that need less
  std::vector<RejectedLayout> rejected;
  std::map<std::string, int64_t> reasons;  // how many layouts each kind of refusal met
  int64_t evaluated = 0;                   // closed forms of time and memory
  int64_t pruned = 0;  // left out because a bound showed them too slow or too large
  int64_t simulated = 0;
  int64_t dry_runs = 0;
  std::vector<std::string> warnings;
};

// Every legal layout, by closed forms; the best hundred by their simulated schedule.
// Error(Config) where the request itself is impossible.
PlanResult search_plans(const PlanRequest& request, const Constants& constants);

// The stages that to_run_file writes where layers do not divide evenly.
StageLayers written_split(const PlanRequest& request, const Layout& layout);
// The case of one layout.
Case case_of(const PlanRequest& request, const Layout& layout);

// "dp 2 · shard 8 · zero 1 · tp 8 · pp 4 · interleaved × 2 · micro 1"
std::string to_text(const Layout& layout);

// A configuration that `sextant train` runs: on CUDA for a cluster of GPUs, if it runs the model
// there, else on the CPU.
std::string to_run_file(const PlanRequest& request, const Layout& layout);
// Bytes of run.memory_limit in that configuration.
int64_t memory_limit_of(const Hardware& hardware);
// Why the program does not train the model on the GPUs of the cluster, or "".
std::string device_refusal(const PlanRequest& request);
// Why it does not train the model in the number format, or "".
std::string format_refusal(const PlanRequest& request);
// Why the configuration check refuses a layout, or "". Offload and etp, which not every device
// has, are checked on that of the cluster.
std::string refusal_of(const PlanRequest& request, const Layout& layout);

}  // namespace sextant
