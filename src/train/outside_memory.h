#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace sextant {

// Bytes of a GPU's memory that a process takes beside its arenas once each of these is in use.
struct OutsideTable {
  int64_t context = 0;  // CUDA's, with the GPU idle otherwise
  int64_t cublas = 0, cudnn = 0, nccl = 0;
  int64_t kernels = 0;  // Sextant's own, loaded when first used
  bool is_measured = false;
};

// Of an H200 with CUDA 13.0 where that was measured (not NCCL's), for machines where nothing was.
OutsideTable assumed_outside();

// What a process of the run takes of it.
struct OutsidePart {
  const char* name;
  int64_t bytes;
};
std::vector<OutsidePart> outside_parts(const OutsideTable& table, const Config& config);
int64_t predicted_outside(const OutsideTable& table, const Config& config);

// A line below the memory table: the parts, and the total with `reserved`, the bytes of the arenas
// of the process.
std::string outside_text(const OutsideTable& table, const Config& config, int64_t reserved);

}  // namespace sextant
