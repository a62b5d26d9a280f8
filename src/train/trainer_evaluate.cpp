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

Evaluation Trainer::evaluate() {
  SXT_CHECK(config_.train.eval_every > 0, Internal,
            "an evaluation that no train.eval_every asks for");
  decide_update();
  std::vector<EvalSource> sources = data_.eval_sources();
  if (sources.empty() || stream_.is_phantom())  // without end, or not read
    sources = {{"", 0, stream_.is_phantom() ? config_.batch.micro : data_.samples(Split::Eval)}};
  Evaluation all;
  double total = 0;
  for (const EvalSource& source : sources) {
    const LossSum sum = evaluate_source(source);
    total += sum.loss;
    all.tokens += sum.tokens;
    if (sources.size() > 1) all.sources.push_back({source.name, sum.mean(), sum.tokens});
  }
  all.loss = LossSum{total, all.tokens}.mean();
  return all;
}

// The first train.eval_batches of a source. All ranks run equally many forward passes: a rank
// without a batch of its own uses rows that do not count.
Trainer::LossSum Trainer::evaluate_source(const EvalSource& source) {
  const int64_t micro = config_.batch.micro, at_a_time = evaluation_size();
  const int64_t batches = std::min(config_.train.eval_batches, source.samples / micro);
  const int64_t ranks = data_ranks(config_.parallel);
  std::vector<double> losses;
  int64_t tokens = 0;
  for (int64_t first = data_rank(mesh_); first - data_rank(mesh_) < batches;
       first += ranks * at_a_time) {
    const std::span<HostBatch> hosts = std::span(host_).first(static_cast<size_t>(at_a_time));
    for (int64_t i = 0; i < at_a_time; ++i) {
      HostBatch& host = hosts[static_cast<size_t>(i)];
      const int64_t mine = first + i * ranks;
      fill(host, Split::Eval, source.first + mine * micro, mine < batches ? micro : 0);
      tokens += stream_.is_phantom() ? 0 : valid_tokens(host);
    }
    arena_.begin(Program::Evaluation);
    const std::span<double> own = executor_.evaluate(hosts);
    arena_.end();
    losses.insert(losses.end(), own.begin(), own.end());
  }
  const double total = sum_over_all(losses);
  mesh_.data().control().all_reduce(std::span(&tokens, 1), ReduceOp::Sum);
  return {total, tokens};
}

}  // namespace sextant
