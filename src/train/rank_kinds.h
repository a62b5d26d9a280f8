#pragma once
#include <vector>

#include "config/config.h"
#include "mesh/axis.h"
#include "program/rank_part.h"

namespace sextant {

// Which ranks of a mesh allocate and send the same, so that one of them stands for all. Replicas,
// and ranks that share layers or sequences, always do; the others differ by the stages they hold
// and by what of each group of parameters they own. (Of ranks that share layers, the first alone
// adds a bias and counts what all of them have: that changes operations, neither bytes nor
// messages.)
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
  std::vector<int> kinds_;            // by place along pp and shard
  std::vector<int> representatives_;  // ranks, by kind
};

}  // namespace sextant
