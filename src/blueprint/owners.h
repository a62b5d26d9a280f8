#pragma once
#include <string>
#include <vector>

#include "blueprint/memory.h"

namespace sextant {

// What the ranks of a shard group divide under a stage: "optimizer", "gradients", "weights".
std::vector<std::string> divided_by(const MemoryQuestion& question);

// Who owns what: for each group of parameters the range of its elements that each shard rank
// updates (blocks alike are one line), then the bytes of each rank, between steps and at the peak
// of one. With a pipeline, the same for each of its ranks and what that one holds; pipeline_rank
// and shard_rank of the question do not matter. Ranks in the middle of many are left out.
std::string owners_text(const Blueprint& blueprint, const MemoryQuestion& question);

}  // namespace sextant
