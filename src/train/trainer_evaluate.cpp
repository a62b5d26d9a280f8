#include <algorithm>

#include "train/trainer.h"

namespace sextant {

// Micro-batches per data parallel rank in one evaluation. Does not depend on the amount of held-out
// data: the evaluation program is built before the data is known.
int Trainer::evaluation_size() const {
  if (config_.train.eval_every == 0) return 0;
  const int64_t ranks = data_ranks(config_.parallel);
  return static_cast<int>(std::min<int64_t>((config_.train.eval_batches + ranks - 1) / ranks,
                                            static_cast<int64_t>(micros_.size())));
}

// All ranks run equally many forward passes: a rank without a batch of its own uses rows that do
// not count.
Evaluation Trainer::evaluate() {
  SXT_CHECK(config_.train.eval_every > 0, Internal,
            "an evaluation that no train.eval_every asks for");
  decide_update();
  const int64_t micro = config_.batch.micro, at_a_time = evaluation_size();
  const int64_t batches = stream_.is_phantom() ? 1
                                               : std::min(config_.train.eval_batches,
                                                          data_.samples(Split::Eval) / micro);
  const int64_t ranks = data_ranks(config_.parallel);
  std::vector<double> losses;
  int64_t tokens = 0;
  for (int64_t first = data_rank(mesh_); first - data_rank(mesh_) < batches;
       first += ranks * at_a_time) {
    const std::span<HostBatch> hosts = std::span(host_).first(static_cast<size_t>(at_a_time));
    for (int64_t i = 0; i < at_a_time; ++i) {
      HostBatch& host = hosts[static_cast<size_t>(i)];
      const int64_t mine = first + i * ranks;
      fill(host, Split::Eval, mine * micro, mine < batches ? micro : 0);
      tokens += stream_.is_phantom() ? 0 : valid_tokens(host);
    }
    arena_.begin(Program::Evaluation);
    const std::span<double> own = executor_.evaluate(hosts);
    arena_.end();
    losses.insert(losses.end(), own.begin(), own.end());
  }
  const double total = sum_over_all(losses);
  mesh_.data().control().all_reduce(std::span(&tokens, 1), ReduceOp::Sum);
  return {tokens == 0 ? 0 : total / static_cast<double>(tokens), tokens};
}

}  // namespace sextant
