#include "schedule/timed_ranks.h"

#include <algorithm>

#include "base/error.h"

namespace sextant {

TimedRanks::TimedRanks(Schedule blank, std::span<const StageCost> costs, double comm,
                       double memory_limit)
    : schedule_(std::move(blank)),
      costs_(costs),
      comm_(comm),
      // Slack for rounding in sums of memory.
      limit_(memory_limit * (1 + 1e-9)),
      ranks_(schedule_.ranks.size()),
      forward_ends_(costs.size()),
      input_grad_ends_(costs.size()) {}

bool TimedRanks::is_ready(Kind kind, int stage) const {
  if (kind == Kind::F) return stage == 0 || forwards(stage - 1) > forwards(stage);
  return forwards(stage) > input_grads(stage) &&
         (stage + 1 == schedule_.stages || input_grads(stage + 1) > input_grads(stage));
}

const double* TimedRanks::producer_end(Kind kind, int stage) const {
  SXT_CHECK(is_ready(kind, stage), Internal, schedule_.name, ": stage ", stage,
            " is given its turn before its input");
  if (kind == Kind::F) return stage == 0 ? nullptr : &forward_ends_[stage - 1][forwards(stage)];
  return stage + 1 == schedule_.stages ? nullptr : &input_grad_ends_[stage + 1][input_grads(stage)];
}

std::optional<double> TimedRanks::arrival(Kind kind, int stage) const {
  const double* end = producer_end(kind, stage);
  const int from = kind == Kind::F ? stage - 1 : stage + 1;
  if (!end || schedule_.rank_of(from, 0) == schedule_.rank_of(stage, 0)) return std::nullopt;
  return *end + comm_;
}

void TimedRanks::put(Kind kind, int stage) {
  const int rank = schedule_.rank_of(stage, 0);
  const double start = std::max(ranks_[rank].now, arrival(kind, stage).value_or(0));
  const StageCost& cost = costs_[stage];
  const bool forward = kind == Kind::F;
  const Action action = {kind, stage, forward ? forwards(stage) : input_grads(stage)};
  run(rank, action, start, forward ? cost.forward_time : cost.input_grad_time,
      forward ? cost.activation_memory : cost.memory_for_weight_grad - cost.activation_memory);
  (forward ? forward_ends_ : input_grad_ends_)[stage].push_back(ranks_[rank].now);
  if (!forward) ranks_[rank].pending_weights.push_back({Kind::W, stage, action.micro});
}

void TimedRanks::put_weight(int rank) {
  SXT_CHECK(has_pending_weight(rank), Internal, schedule_.name, ": rank ", rank,
            " owes no weight gradient");
  const Action action = ranks_[rank].pending_weights.front();
  ranks_[rank].pending_weights.pop_front();
  const StageCost& cost = costs_[action.stage];
  run(rank, action, ranks_[rank].now, cost.weight_grad_time, -cost.memory_for_weight_grad);
}

void TimedRanks::run(int rank, const Action& action, double start, double time, double memory) {
  Rank& at = ranks_[rank];
  if (schedule_.ranks[rank].empty()) {
    at.start = start;
  } else {
    at.idle += start - at.now;  // never less than before
    most_idle_ = std::max(most_idle_, at.idle);
  }
  at.now = start + time;
  at.held += memory;
  schedule_.ranks[rank].push_back(action);
}

void TimedRanks::put_all_weights(int rank) {
  while (has_pending_weight(rank)) put_weight(rank);
}

bool TimedRanks::make_room(Kind kind, int stage) {
  const int rank = schedule_.rank_of(stage, 0);
  const StageCost& cost = costs_[stage];
  while (!fits(rank, kind == Kind::F ? cost.activation_memory
                                     : cost.memory_for_weight_grad - cost.activation_memory)) {
    if (!has_pending_weight(rank)) return false;
    put_weight(rank);
  }
  return true;
}

double TimedRanks::next_weight_time(int rank) const {
  return costs_[ranks_[rank].pending_weights.front().stage].weight_grad_time;
}

bool TimedRanks::fits(int rank, double more) const {
  return ranks_[rank].held + more <= limit_;
}

double TimedRanks::longest_span() const {
  double longest = 0;
  for (const Rank& rank : ranks_) longest = std::max(longest, rank.now - rank.start);
  return longest;
}

std::vector<double> TimedRanks::idles() const {
  std::vector<double> out;
  for (const Rank& rank : ranks_) out.push_back(rank.idle);
  return out;
}

}  // namespace sextant
