#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/storage.h"
#include "sim/machine.h"

namespace sextant {

// An operation as it ran: what it did and how long it took. The same work again and again is one
// sample with the lower quartile of its times.
struct CostSample {
  std::string key;  // operation_key or collective_key
  double flops = 0, read = 0, written = 0, sent = 0;
  double seconds = 0;
};

// The cost with the least sum of squared relative errors, no part of it below zero. Samples of one
// key.
OpCost fit_cost(const std::vector<CostSample>& samples);
double mean_error(const OpCost& cost, const std::vector<CostSample>& samples);  // relative

struct CalibrateOptions {
  int cores = 0;   // 0: those of this process
  int steps = 4;   // of each model, after one that is not counted
  int rounds = 2;  // of everything: what is measured takes turns
  std::function<void(const std::string&)> progress = {};
};

// One cost of the machine, with its samples.
struct CalibratedCost {
  std::string key;
  OpCost cost;
  std::vector<CostSample> samples;
  double error = 0;  // mean, relative
};

struct Calibration {
  Machine machine;
  std::string gpu = {};               // the name of the GPU; "": this machine's cores were measured
  std::vector<CalibratedCost> costs;  // in order of their keys
  double fma_peak = 0, fma_peak_bf16 = 0, copy_rate = 0;  // of all cores together
};

// Measures this machine with all of its cores at work: operations inside of training steps of small
// models (on one rank of all cores, and on ranks of fewer threads), GEMMs over a grid of shapes and
// precisions, collectives and messages over 2 ... n ranks, with a core for each and without.
Calibration calibrate(const CalibrateOptions& options, Storage& storage, const Clock& clock,
                      Log& log);

// The same of the first GPU alone: operations inside of bf16 training steps of some models, timed
// by the GPU while it sits at the clock that its power limit leaves. No model is one of the
// presets.
Calibration calibrate_gpu(const CalibrateOptions& options, Storage& storage, const Clock& clock,
                          Log& log);

// Fits a cost to the samples of each key.
void add_costs(Calibration& out, std::vector<CostSample> samples);

// The hardware file: what the planner reads, a "GPU" being a core, and the costs of operations.
std::string hardware_text(const Calibration& calibration);

}  // namespace sextant
