#pragma once
#include <cstdint>

namespace sextant {

// A run of many days: steps, checkpoints, interruptions and restarts. Times are in seconds.
struct WholeRun {
  double work = 0;         // of all steps, without interruptions, checkpoints and slow nodes
  double between = 0;      // mean time between interruptions; infinite: none
  double checkpoint = 0;   // that a checkpoint blocks training
  double interval = 0;     // of training between two checkpoints
  double restart = 0;      // from an interruption until training goes on
  double nodes = 1;        // of the cluster
  double slow_share = 0;   // of nodes that are slow, drawn anew at each restart
  double slow_factor = 1;  // by which a slow node delays every step
};

// Where the time of a run went, as a mean over several seeds; the terms add up to `seconds`.
struct RunOutlook {
  double seconds = 0;
  double work = 0, slow = 0, checkpoints = 0, lost = 0, restarts = 0;
  double interruptions = 0;
  double goodput = 0;                        // work / seconds
  double goodput_low = 0, goodput_high = 0;  // the lowest and the highest of the seeds
};

// Interruptions come at exponentially distributed times, during restarts too. What was trained
// since the last checkpoint is lost. Each seed is the mean of the run without interruptions and of
// one with some, weighted by the probabilities of both. Error(Config) for a run that would not end.
RunOutlook simulate_whole_run(const WholeRun& run, uint64_t seed, int seeds);

// Expected seconds of the same run without slow nodes, in closed form:
//   work / interval * between * exp(restart / between) * (exp((interval + checkpoint) / between) -
//   1)
double expected_seconds(const WholeRun& run);

// Intervals that cost the least time: first and higher order estimates, and that of the simulation.
double young_interval(double checkpoint, double between);
double daly_interval(double checkpoint, double between);
double best_interval(const WholeRun& run, uint64_t seed, int seeds);

}  // namespace sextant
