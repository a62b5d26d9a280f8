#pragma once
#include "base/range.h"
#include "config/config.h"

namespace sextant {

// How a global batch is cut. Data rank k of d takes even_part(global, d, k), consecutive samples,
// and cuts them into `accumulation` micro-batches by even_part again. All ranks make the same
// number of micro-batches; one with fewer than `micro` samples is filled up with rows that do not
// count.

// Samples first ... first + count - 1 of the global batch; at most BatchConfig::micro of them, and
// perhaps none.
struct MicroSlice {
  int64_t first = 0, count = 0;
  friend bool operator==(const MicroSlice&, const MicroSlice&) = default;
};

inline MicroSlice micro_slice(const BatchConfig& batch, int data_ranks, int data_rank, int micro) {
  const Range rank = even_part(batch.global, data_ranks, data_rank);
  const Range part = even_part(rank.size(), static_cast<int>(batch.accumulation), micro);
  return {rank.begin + part.begin, part.size()};
}

}  // namespace sextant
