#pragma once
#include <cstdint>
#include <vector>

#include "comm/call.h"

namespace sextant {

// The memory of all ranks in one collective, aligned to 64 bytes. AllReduce and Broadcast (whose
// root is rank 0) work in place, in `out`.
struct RankBuffers {
  int64_t bytes = 0;  // of the whole vector, divisible by the ranks
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  int ranks() const { return static_cast<int>(out.size()); }
};

// The reads and writes that a collective cannot do without, and nothing else: every byte that
// matters is loaded at least once and every byte of a result stored once, no sum. One rank's part
// of it; the ranks together do the whole. Which order of them and which kind of store a machine
// likes best differs, so there are several variants, and the limit is the best of them.
//   AllReduce      part r of all vectors is loaded, and one of them stored into all
//   ReduceScatter  part r of all inputs is loaded, and one of them stored
//   AllGather      an input is loaded by every rank, or once and stored into all outputs
//   AllToAll       part r of all inputs is copied
//   Broadcast      the root's vector is loaded by every rank, or part r once by rank r
inline constexpr int kFloorVariants = 6;
void collective_floor(Operation operation, int variant, int rank, const RankBuffers& buffers);

}  // namespace sextant
