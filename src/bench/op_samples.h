#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "bench/calibrate.h"
#include "trace/recorder.h"

namespace sextant {

// Times of operations, gathered by what they did.
class OpSamples {
 public:
  void add(const CostSample& sample);
  void add(const OpSamples& other);

  // One for each kind of work, in order of their keys, with the lower quartile of its times: other
  // programs only slow operations down.
  std::vector<CostSample> typical() const;

 private:
  using Work = std::tuple<std::string, double, double, double, double>;
  std::map<Work, std::vector<double>> times_;
};

// Times the operations of a rank's compute lane as they are recorded. An operation lasts until the
// next one is recorded, so what the host does in between belongs to it; so does the wait that comes
// after some, which the quartile leaves out. The clock is that of the rank's own thread, which
// stands while other programs have its core, and does its part of every operation of several
// threads.
class OpTimer {
 public:
  explicit OpTimer(int threads);
  OpTimer(const OpTimer&) = delete;
  OpTimer& operator=(const OpTimer&) = delete;

  TraceRecorder& recorder() { return recorder_; }
  void start();                        // of the next operation
  void finish() { recorder_.take(); }  // the last one is done

  bool counts = true;  // whether operations become samples
  OpSamples samples;

 private:
  double begin_ = 0;
  TraceRecorder recorder_;
};

// Products over a grid of shapes, on ranks of `threads` threads that keep all cores busy.
void sample_products(int cores, int threads, OpSamples& samples);

double lower_quartile(std::vector<double> values);  // 0 for none
// Seconds that this thread, or all threads of this process, have had a core.
double thread_seconds();
double process_seconds();

// Collectives and messages over groups of 2 ... `ranks` ranks, on `cores` cores.
void sample_collectives(int ranks, int cores, const Clock& clock, OpSamples& samples);

}  // namespace sextant
