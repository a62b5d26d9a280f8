#pragma once
#include <cstdint>
#include <vector>

#include "comm/call.h"

namespace sextant {

// The memory of all ranks in one collective, aligned to 64 bytes. AllReduce and Broadcast (root:
// rank 0) work in place, in `out`.
struct RankBuffers {
  int64_t bytes = 0;  // of the whole vector, divisible by the ranks
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  int ranks() const { return static_cast<int>(out.size()); }
};

// Only the reads and writes that a collective needs: every relevant byte is loaded at least once
// and every byte of a result stored once, without a sum. Does one rank's part; the ranks together
// do the whole. The best order and kind of store depend on the machine, so there are several
// variants, and the limit is the fastest of them.
//   AllReduce      load part r of all vectors, store one of them into all
//   ReduceScatter  load part r of all inputs, store one of them
//   AllGather      every rank loads an input, or one loads it and stores it into all outputs
//   AllToAll       copy part r of all inputs
//   Broadcast      every rank loads the root's vector, or rank r loads part r once
inline constexpr int kFloorVariants = 6;
void collective_floor(Operation operation, int variant, int rank, const RankBuffers& buffers);

}  // namespace sextant
