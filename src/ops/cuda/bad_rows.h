#pragma once
// Reports of bad values in an i32 tensor with one value per row. The thread that works on a bad row
// looks whether a row before it is bad too; only the first one finds none, and it reports. Without
// bad values nothing is read twice, and no kernel or memory of its own is needed.
#include "ops/cuda/kernel.h"

namespace sextant::cuda {

// Where and how an op reports.
struct Report {
  DeviceFault* fault;
  int32_t message;

  Report(Stream& stream, Fault kind, const char* op, const char* text)
      : fault(fault_of(stream)), message(message_of(kind, op, text)) {}

  // By one thread of a launch at most.
  __device__ void operator()(int64_t a, int64_t b = 0, int64_t c = 0, int64_t d = 0) const {
    if (fault->message != 0) return;
    fault->values[0] = a;
    fault->values[1] = b;
    fault->values[2] = c;
    fault->values[3] = d;
    fault->message = message;
  }
};

// Whether is_bad(values[i]) for no i < row.
template <class IsBad>
__device__ inline bool is_first_bad(const int32_t* values, int64_t row, IsBad is_bad) {
  for (int64_t i = 0; i < row; ++i)
    if (is_bad(values[i])) return false;
  return true;
}

}  // namespace sextant::cuda
