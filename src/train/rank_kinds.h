#pragma once
#include <vector>

#include "config/config.h"
#include "mesh/axis.h"
#include "program/rank_part.h"

namespace sextant {

// Which ranks of a mesh allocate and send the same, so that one represents all. Replicas, tensor
// parallel and context parallel ranks always do; others differ by their stages and by the shards
// they own. (Tensor parallel rank 0 alone adds a bias and counts replicated parameters: that
// changes operations, not bytes or messages.)
class RankKinds {
 public:
  RankKinds() = default;
  RankKinds(const Config& config, const Blueprint& blueprint, const Pipeline& pipeline);

  int size() const { return static_cast<int>(representatives_.size()); }
  int representative(int kind) const { return representatives_[static_cast<size_t>(kind)]; }
  int kind_of(int rank) const;

 private:
  size_t place(const Coordinates& at) const;

  MeshShape shape_;
  int inner_ = 1;           // ranks of a stage that may differ: of shard; with ep or etp all
  std::vector<int> kinds_;  // by pipeline rank and one of these
  std::vector<int> representatives_;  // rank of each kind
};

}  // namespace sextant
