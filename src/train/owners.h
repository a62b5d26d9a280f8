#pragma once
#include <string>
#include <vector>

#include "train/preflight.h"

namespace sextant {

// What the ranks of a shard group divide under a stage: "optimizer", "gradients", "weights".
std::vector<std::string> divided_by(const ParallelConfig& parallel);

// The rank of the mesh that stands for a shard of a rank of the pipeline: the first of all that
// hold the same state.
int owner_rank(const ParallelConfig& parallel, int pipeline_rank, int shard);

// Who owns what: for each group of parameters the range of its elements that each shard rank
// updates (blocks alike are one line), then the bytes of each rank, between steps and at the peak
// of one. With a pipeline, the same for each of its ranks and what that one holds. Ranks in the
// middle of many are left out.
std::string owners_text(const Preflight& flight, const ParallelConfig& parallel);

}  // namespace sextant
