#pragma once

namespace sextant {

// What this machine can do at most, measured for some tens of milliseconds: the limits that results
// are held against. Machines are shared: take both in the same run.

// Multiply-adds of f32 in registers, on this many threads, in FLOP/s.
double fma_peak(int threads);

// Bytes per second that `threads` threads move: reads + writes of y = x over arrays that no cache
// holds.
double copy_bandwidth(int threads);
// The same for y = a + b: two reads and a write.
double add_bandwidth(int threads);

}  // namespace sextant
