#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "comm/ledger.h"
#include "config/config.h"

namespace sextant {

// Bytes of a GPU's memory that a process takes beside its arenas once each of these is in use.
struct OutsideTable {
  int64_t context = 0;  // CUDA's, with the GPU idle otherwise
  int64_t cublas = 0, cudnn = 0;
  int64_t nccl = 0;          // of a rank: the library and the world's communicator
  int64_t nccl_group = 0;    // of each further communicator
  int64_t nccl_peer = 0;     // of each other rank in a communicator, for sums in rank order
  int64_t nccl_channel = 0;  // of each communicator of messages
  int64_t kernels = 0;       // Sextant's own, loaded when first used
  bool is_measured = false;
};

// Of an H200 with CUDA 13.0 where that was measured (not NCCL's), for machines where nothing was.
// NCCL's buffers are 0 beside those of the world.
OutsideTable assumed_outside();

// What a process of the run takes of it on a GPU, over NCCL with the staging memory of groups.
struct OutsidePart {
  const char* name;
  int64_t bytes;
};
// What the ranks of a GPU are in: the groups of one, and how many ranks share it.
struct OnGpu {
  GroupCounts groups;
  int64_t ranks = 1;
};
std::vector<OutsidePart> outside_parts(const OutsideTable& table, const Config& config,
                                       const OnGpu& on_gpu = {});
int64_t predicted_outside(const OutsideTable& table, const Config& config,
                          const OnGpu& on_gpu = {});

// A line below the memory table: the parts, and the total with `reserved`, the bytes of the arenas
// of the process.
std::string outside_text(const OutsideTable& table, const Config& config, int64_t reserved,
                         const OnGpu& on_gpu = {});

}  // namespace sextant
