#pragma once
#include <string>
#include <vector>

#include "train/preflight.h"

namespace sextant {

// What a ZeRO stage shards: "optimizer", "gradients", "weights".
std::vector<std::string> divided_by(const ParallelConfig& parallel);

// The first rank of the mesh that holds shard `shard` of pipeline rank `pipeline_rank`.
int owner_rank(const ParallelConfig& parallel, int pipeline_rank, int shard);

// Who owns what: for each parameter group the range of elements that each shard rank updates (equal
// blocks share one line), then the bytes of each rank, between steps and at the peak. With a
// pipeline, the same for each pipeline rank and its layers. Middle ranks are left out when there
// are many.
// Ranks over which the state of an expert is divided: those with the same experts (edp).
int expert_shards(const ParallelConfig& parallel);

std::string owners_text(const Preflight& flight, const ParallelConfig& parallel);

}  // namespace sextant
