#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace sextant {

// When an operation of a trace ran on its device. Unknown: end before begin.
struct OpTime {
  double begin = 0, end = -1;  // seconds
  bool is_known() const { return end >= begin; }
  double seconds() const { return end - begin; }
};

// What a device keeps up, per second; 0: not known.
struct Ceilings {
  double flops = 0, bytes = 0;
};

// The operations of a step with the same name and kind of lane: their times together, and what they
// compute and access by the trace.
struct OpClass {
  std::string name;
  int64_t count = 0;
  double seconds = 0;
  double flops = 0, bytes = 0;
  bool is_compute = true;  // on the compute lane
  // The least time at the ceilings: of each operation the longer of that of its FLOPs and that of
  // its bytes, added up. 0 on other lanes.
  double floor_s = 0;
  double predicted_s = 0;  // of all operations, where a prediction was given

  double flops_per_s() const { return seconds > 0 ? flops / seconds : 0; }
  double bytes_per_s() const { return seconds > 0 ? bytes / seconds : 0; }
};

// A step's operations by class, the longest first.
struct OpTable {
  double step_s = 0;
  double idle_s = 0;  // in which no timed operation ran
  std::vector<OpClass> classes;
  bool has_floors = false, has_predictions = false;

  double floor_s() const;  // of all classes
};

// `times`: of each operation of the trace; those of unknown time are left out. `predicted`: seconds
// of an operation.
OpTable op_table(const Trace& trace, std::span<const OpTime> times, double step_s,
                 const Ceilings& ceilings = {},
                 const std::function<double(const TraceOp&)>& predicted = {});

// Lines with count, ms, percent of the step, TFLOP/s and TB/s of each class, with floors also these
// and what is left to them, in ms, and predicted times in ms; last ones for the time without
// operations and the step.
std::string to_text(const OpTable& table);

}  // namespace sextant
