#pragma once
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "schedule/schedule.h"
#include "schedule/stage_cost.h"

namespace sextant {

// A schedule of split backwards while it is built with the clock in hand: what each rank has put in
// its list so far, when that ends, and what it holds by then. The micros of a stage go in order,
// and so do the weight halves that a rank owes.
class TimedRanks {
 public:
  // `blank`: ranks with nothing to do. `costs`: one per stage, which outlive this.
  TimedRanks(Schedule blank, std::span<const StageCost> costs, double comm, double memory_limit);

  // Whether the input of the stage's next F or I is there, or is its own.
  bool is_ready(Kind kind, int stage) const;
  // When it arrives, if another rank makes it; it has to be ready.
  std::optional<double> arrival(Kind kind, int stage) const;
  // The stage's next F or I, as early as its rank and its input allow.
  void put(Kind kind, int stage);
  // The oldest weight half that the rank owes.
  void put_weight(int rank);
  void put_all_weights(int rank);
  // Weight halves until a rank can hold another F (its next I) of this stage; false when it owes
  // none.
  bool make_room(Kind kind, int stage);

  bool owes_weight(int rank) const { return !ranks_[rank].owed.empty(); }
  double next_weight_time(int rank) const;
  double now(int rank) const { return ranks_[rank].now; }
  double idle(int rank) const { return ranks_[rank].idle; }  // since its first action
  double most_idle() const;
  double longest_span() const;
  std::vector<double> idles() const;
  // Whether the rank could hold `more` on top of what it holds.
  bool fits(int rank, double more) const;
  int forwards(int stage) const { return static_cast<int>(forward_ends_[stage].size()); }
  int inputs(int stage) const { return static_cast<int>(input_ends_[stage].size()); }
  double forward_end(int stage, int micro) const { return forward_ends_[stage][micro]; }

  const Schedule& schedule() const { return schedule_; }
  const StageCost& cost(int stage) const { return costs_[stage]; }

 private:
  struct Rank {
    double start = 0, now = 0, idle = 0, held = 0;
    std::deque<Action> owed;  // weight halves
  };
  // The end of what the stage's next F or I needs from its neighbour; nullptr when nothing.
  const double* input_end(Kind kind, int stage) const;
  void run(int rank, const Action& action, double start, double time, double memory);

  Schedule schedule_;
  std::span<const StageCost> costs_;
  double comm_, limit_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<double>> forward_ends_, input_ends_;  // [stage][micro]
};

}  // namespace sextant
