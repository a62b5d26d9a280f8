#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "schedule/blank_schedule.h"
#include "schedule/generators.h"
#include "schedule/timed_ranks.h"

namespace sextant {
namespace {

// Whether a weight gradient may go into a gap that is too short for it.
struct Fill {
  bool before_backward, before_forward;
};

// One pass over the ranks; chunk 0 goes down the V, chunk 1 up. Every turn appends to each rank a
// backward and a forward of one of its chunks.
class GreedyPass {
 public:
  // `approved`: idle time that each rank may have, from an earlier pass.
  GreedyPass(int ranks, int micros, std::span<const StageCost> costs, double comm, double limit,
             Fill fill, const std::vector<double>& approved)
      : ranks_(ranks),
        micros_(micros),
        comm_(comm),
        fill_(fill),
        approved_(approved),
        time_(blank_schedule("zb-v", ranks_, micros, 2, Placement::V), costs, comm, limit) {}

  void run() {
    fill_pipe();
    even_out();
    for (int turn = 0; turn < 2 * micros_; ++turn) {
      put_backwards();
      put_forwards();
    }
    for (int r = 0; r < ranks_; ++r) time_.put_all_weights(r);
  }
  const TimedRanks& result() const { return time_; }

 private:
  int down(int r) const { return r; }
  int up(int r) const { return 2 * ranks_ - 1 - r; }

  // Warm-up: the first micro through the whole V, with chunk 0 forwards until it comes back.
  void fill_pipe() {
    for (int r = 0; r < ranks_; ++r) time_.put(Kind::F, down(r));
    for (int r = ranks_ - 1; r >= 0; --r) {
      const StageCost& cost = time_.cost(down(r));
      while (r + 1 < ranks_ && time_.fits(r, cost.activation_memory * (2 + 2 * r)) &&
             time_.now(r) + cost.forward_time <= time_.forward_end(up(r + 1), 0) + comm_ &&
             time_.forwards(down(r)) < micros_)
        for (int j = 0; j <= r; ++j) time_.put(Kind::F, down(j));
      time_.put(Kind::F, up(r));
    }
  }

  // Warm-up forwards of a rank are at least as many as those of the rank before it.
  void even_out() {
    bool downwards = true;
    for (int r = 1; r < ranks_; ++r)
      while (is_behind(r)) {
        for (int j = ranks_ - 1; j >= r; --j) {
          const int stage = downwards ? down(j) : up(j);
          if (time_.forwards(stage) < micros_) time_.put(Kind::F, stage);
        }
        downwards = !downwards;
      }
  }
  bool is_behind(int r) const {
    const auto total = [&](int j) { return time_.forwards(down(j)) + time_.forwards(up(j)); };
    const int before = time_.forwards(up(r - 1));
    return total(r) < total(r - 1) || (time_.forwards(up(r)) <= before && before < micros_);
  }

  void put_backwards() {
    std::vector<int> ups, downs;  // ranks whose next backward is of chunk 0, of chunk 1
    for (int r = 0; r < ranks_; ++r) {
      time_.make_room(Kind::I, down(r));
      (goes_up(r) ? ups : downs).push_back(r);
    }
    std::ranges::reverse(ups);
    for (const int r : ups) put_backward(down(r), r, true);
    for (const int r : downs) put_backward(up(r), r, fill_.before_backward);
  }
  // Whether a rank's next backward is of chunk 0, whose gradients go up to rank 0.
  bool goes_up(int r) const {
    if (time_.input_grads(down(r)) >= time_.input_grads(up(r))) return false;
    return r + 1 == ranks_ || time_.input_grads(down(r + 1)) > time_.input_grads(down(r)) ||
           time_.input_grads(up(r)) == micros_;
  }
  void put_backward(int stage, int r, bool may_fill) {
    fill_gap(Kind::I, stage, r, may_fill);
    time_.put(Kind::I, stage);
  }

  void put_forwards() {
    for (int r = 0; r < ranks_; ++r) {
      const std::optional<int> stage = next_forward(r);
      if (!stage) continue;
      SXT_CHECK(time_.make_room(Kind::F, *stage), Internal, "zb-v: no room on rank ", r);
      fill_gap(Kind::F, *stage, r, fill_.before_forward);
      time_.put(Kind::F, *stage);
    }
  }
  std::optional<int> next_forward(int r) const {
    if (time_.forwards(up(r)) == micros_) return std::nullopt;
    if (time_.forwards(up(r)) >= time_.forwards(down(r))) return down(r);
    if (time_.is_ready(Kind::F, up(r))) return up(r);
    if (time_.forwards(down(r)) < micros_ && time_.is_ready(Kind::F, down(r))) return down(r);
    return std::nullopt;
  }

  // Fills the gap before the input arrives with weight gradients.
  void fill_gap(Kind kind, int stage, int r, bool may_fill) {
    const std::optional<double> arrives = time_.arrival(kind, stage);
    if (!arrives) return;
    while (time_.has_pending_weight(r) && *arrives >= time_.now(r) + time_.next_weight_time(r))
      time_.put_weight(r);
    if (time_.has_pending_weight(r) && *arrives - time_.now(r) > slack(r) && may_fill)
      time_.put_weight(r);
  }
  // How much longer this rank may be idle without becoming the most idle one.
  double slack(int r) const {
    const double most = std::ranges::max(approved_) - approved_[r];
    return std::max(time_.most_idle(), most) - time_.idle(r);
  }

  int ranks_, micros_;
  double comm_;
  Fill fill_;
  const std::vector<double>& approved_;
  TimedRanks time_;
};

}  // namespace

Schedule zb_v_greedy(int ranks, int micros, const StageCost& cost, double comm,
                     double memory_limit) {
  SXT_CHECK(memory_limit >= 2 * ranks * cost.activation_memory, Config, "zb-v: memory limit ",
            memory_limit, "; it needs what 2 forwards for each rank hold, ",
            2 * ranks * cost.activation_memory, ", v-half and v-min need less");
  const std::vector<StageCost> costs(static_cast<size_t>(2 * ranks), cost);
  Schedule best;
  double least = std::numeric_limits<double>::infinity();
  for (const bool before_backward : {true, false})
    for (const bool before_forward : {true, false}) {
      std::vector<double> approved(static_cast<size_t>(ranks), -1);
      double last = std::numeric_limits<double>::infinity();
      for (bool better = true; better;) {  // ends: every round lowers the idle time
        GreedyPass pass(ranks, micros, costs, comm, memory_limit, {before_backward, before_forward},
                        approved);
        pass.run();
        const double idle = pass.result().most_idle();
        if (idle < least) {
          least = idle;
          best = pass.result().schedule();
        }
        better = idle < last;
        last = idle;
        approved = pass.result().idles();
      }
    }
  return best;
}

}  // namespace sextant
