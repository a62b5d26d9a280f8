#pragma once
#include "base/dtype.h"

namespace sextant {

// Peak throughput of this machine, measured for some tens of milliseconds. Machines are shared:
// measure limits and results in the same run.

// Multiply-adds in registers on this many threads, in FLOP/s: of f32, or of pairs of bf16 where the
// processor has them.
double fma_peak(int threads, DType operands = DType::F32);

// Bytes per second that `threads` threads move: reads + writes of y = x over arrays larger than any
// cache.
double copy_bandwidth(int threads);
// The same for y = a + b: two reads and a write.
double add_bandwidth(int threads);

}  // namespace sextant
