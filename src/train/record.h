#pragma once
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/traffic.h"
#include "train/routing_record.h"

namespace sextant {

struct Evaluation {
  double loss = 0;     // mean over valid tokens
  int64_t tokens = 0;  // number of valid tokens
  double perplexity() const { return std::exp(loss); }

  struct Source {  // of a blend
    std::string name;
    double loss = 0;
    int64_t tokens = 0;
  };
  std::vector<Source> sources = {};  // empty unless there are several
};

// Results of one step. Its JSON form is a line of metrics.jsonl.
struct StepRecord {
  int64_t step = 0;  // counted from 1
  double loss = 0;
  double grad_norm = 0;  // before clipping
  double lr = 0;
  int64_t tokens = 0;  // of the global batch
  double step_s = 0;
  double tokens_per_s = 0;
  double tflops = 0;  // model FLOPs, by the blueprint's formula
  double mfu = 0;     // fraction of the machine's dense peak
  int64_t mem_peak = 0;
  // Of this rank: seconds of communication, the exposed part of them, and what it sent.
  double comm_s = 0, comm_exposed_s = 0;
  TrafficTable sent = {};
  AxisTimes exposed = {};  // comm_exposed_s by axis of `sent` and operation
  std::optional<double> eval_loss = {};
  std::vector<Evaluation::Source> eval_sources = {};
  std::optional<double> loss_scale = {};      // fp16: of this step
  std::optional<RoutingRecord> routing = {};  // models with experts
  bool is_skipped = false;                    // fp16: its gradients overflowed, no update
};

// Error(Failure) for a non-finite loss or norm.
void check_loss(int64_t step, double loss);
void check_norm(int64_t step, double norm);
bool is_not_finite(const Error& error);  // whether one of these threw it

std::string to_json(const StepRecord& record);
// "step 10/200  loss 3.2101  norm 1.20  lr 3.0e-04  1.9k tok/s  0.13 TFLOP/s  mfu 71.0%  ..."
std::string to_line(const StepRecord& record, int64_t steps);
// The same as a progress bar with the remaining time, for a terminal.
std::string to_progress(const StepRecord& record, int64_t steps);

}  // namespace sextant
