#pragma once
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "schedule/schedule.h"
#include "schedule/stage_cost.h"

namespace sextant {

// A schedule with split backwards, built action by action together with its simulated time: each
// rank's list so far, when it ends and how much memory it holds then. Micros of a stage stay in
// order, and so do a rank's pending weight gradients.
class TimedRanks {
 public:
  // `blank`: ranks without actions. `costs`: one per stage; must outlive this object.
  TimedRanks(Schedule blank, std::span<const StageCost> costs, double comm, double memory_limit);

  // Whether the input of the stage's next F or I is already scheduled, or it needs none.
  bool is_ready(Kind kind, int stage) const;
  // When a ready input arrives from another rank; nullopt if it is local.
  std::optional<double> arrival(Kind kind, int stage) const;
  // Appends the stage's next F or I, as early as its rank and its input allow.
  void put(Kind kind, int stage);
  // Appends the rank's oldest pending weight gradient.
  void put_weight(int rank);
  void put_all_weights(int rank);
  // Appends weight gradients until the rank has memory for the stage's next F (or I); false when
  // none is pending.
  bool make_room(Kind kind, int stage);

  bool has_pending_weight(int rank) const { return !ranks_[rank].pending_weights.empty(); }
  double next_weight_time(int rank) const;
  double now(int rank) const { return ranks_[rank].now; }
  double idle(int rank) const { return ranks_[rank].idle; }  // since its first action
  double most_idle() const { return most_idle_; }
  double longest_span() const;
  std::vector<double> idles() const;
  // Whether the rank has memory for `more`.
  bool fits(int rank, double more) const;
  int forwards(int stage) const { return static_cast<int>(forward_ends_[stage].size()); }
  int input_grads(int stage) const { return static_cast<int>(input_grad_ends_[stage].size()); }
  double forward_end(int stage, int micro) const { return forward_ends_[stage][micro]; }

  const Schedule& schedule() const { return schedule_; }
  const StageCost& cost(int stage) const { return costs_[stage]; }

 private:
  struct Rank {
    double start = 0, now = 0, idle = 0, held = 0;
    std::deque<Action> pending_weights;
  };
  // When the action that makes the input of the stage's next F or I ends; nullptr if it needs none.
  const double* producer_end(Kind kind, int stage) const;
  void run(int rank, const Action& action, double start, double time, double memory);

  Schedule schedule_;
  std::span<const StageCost> costs_;
  double comm_, limit_;
  std::vector<Rank> ranks_;
  double most_idle_ = 0;
  std::vector<std::vector<double>> forward_ends_, input_grad_ends_;  // [stage][micro]
};

}  // namespace sextant
