#pragma once
#include <string>
#include <vector>

#include "base/clock.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "comm/run_ranks.h"
#include "support/workbench.h"

namespace sextant {

// A small training state: a padded table, other types and dims, optimizer state. `salt` decides the
// values; rows of padding hold a value that must not come back.
class SampleState {
 public:
  explicit SampleState(Workbench& bench, const std::string& salt) {
    add(bench.random<float>({8, 3}, salt + "table"), "embedding.tokens.weight", 5);
    add(bench.random<float>({4}, salt + "norm"), "head.norm.weight", 4);
    add(bench.make<int64_t>({}, {static_cast<int64_t>(stable_hash(salt) >> 1)}), "counter", 0);
    add(bench.make<bf16>({2, 3, 2}, std::vector<bf16>(12, bf16{0x3f80})), "cube", 2);
    add(bench.random<float>({8, 3}, salt + "first"), "optim.m.embedding.tokens.weight", 5);
  }
  std::vector<NamedTensor>& tensors() { return tensors_; }
  Tensor& table() { return tensors_[0].tensor; }

 private:
  void add(Tensor tensor, const std::string& name, int64_t valid_rows) {
    tensors_.push_back({name, std::move(tensor), valid_rows});
  }
  std::vector<NamedTensor> tensors_;
};

inline CheckpointState state_at(int64_t step) {
  return {step, {step / 7, step * 3}, ~uint64_t{0} - 5, "[train]\nsteps = 10\n", "1 rank"};
}

// Saves the tensors of a world of one rank.
inline SaveReport save_alone(Storage& storage, const std::string& directory,
                             const CheckpointState& state, const std::vector<NamedTensor>& tensors,
                             Stream& stream, const SaveOptions& options = {}) {
  const SystemClock clock;
  ThreadWorld world(1, clock);
  return save_checkpoint(world.rank(0), storage, directory, state, tensors, stream, options);
}

}  // namespace sextant
