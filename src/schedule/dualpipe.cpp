#include <algorithm>
#include <deque>

#include "schedule/blank_schedule.h"
#include "schedule/generators.h"

namespace sextant {
namespace {

// Writes one rank's list. Phase 0 enters the pipeline on this side, phase 1 leaves it here: the two
// directions of DualPipe, or the two chunks of DualPipeV.
class DualPipeWriter {
 public:
  // A phase's stage and its first micro.
  struct Phase {
    int stage, micro;
  };
  DualPipeWriter(std::vector<Action>& todo, Phase near, Phase far)
      : todo_(todo), phase_{near, far} {}

  void f(int phase) { forward(phase, false); }
  void b(int phase) { backward(Kind::B, phase); }
  void i(int phase) { pending_weights_.push_back(backward(Kind::I, phase)); }
  void w() {
    Action action = pending_weights_.front();
    pending_weights_.pop_front();
    action.kind = Kind::W;
    todo_.push_back(action);
  }
  // Forward of one phase joined with backward of the other.
  void joined(int phase) {
    forward(phase, true);
    b(1 - phase);
  }

 private:
  void forward(int phase, bool joined) {
    const Phase& at = phase_[phase];
    todo_.push_back({Kind::F, at.stage, at.micro + forwards_[phase]++, joined});
  }
  Action backward(Kind kind, int phase) {
    const Phase& at = phase_[phase];
    todo_.push_back({kind, at.stage, at.micro + backwards_[phase]++});
    return todo_.back();
  }

  std::vector<Action>& todo_;
  Phase phase_[2];
  int forwards_[2] = {}, backwards_[2] = {};
  std::deque<Action> pending_weights_;
};

// Rank `q` of the `half` ranks from the end of the pipeline to its middle; `micros` per phase.
void write_rank(DualPipeWriter write, int half, int q, int micros) {
  const int ahead = half - q - 1;
  for (int k = 0; k < 2 * ahead; ++k) write.f(0);
  for (int k = 0; k <= q; ++k) write.f(0), write.f(1);
  for (int k = 0; k < ahead; ++k) write.i(1), write.w(), write.f(1);
  for (int k = 0; k < micros - 2 * half + q + 1; ++k) {
    // On the middle rank the first backward depends on the forward next to it.
    if (k == 0 && ahead == 0) {
      write.f(0), write.b(1);
    } else {
      write.joined(0);
    }
    write.joined(1);
  }
  for (int k = 0; k < ahead; ++k) write.b(1), write.joined(1);
  const int total = 2 * (q + 1), split = q + 1;  // the last half of these backwards is split
  for (int k = 0; k < total; ++k) {
    const int phase = 1 - k % 2;
    if (k < split) {
      write.b(phase);
    } else {
      write.i(phase);
    }
  }
  for (int k = 0; k < ahead; ++k) write.w(), write.i(0);
  for (int k = 0; k <= q; ++k) write.w();
}

}  // namespace

// Micros enter at both ends of the pipeline; every rank holds one stage of each direction.
Schedule dualpipe(int ranks, int micros) {
  Schedule out = blank_schedule("dualpipe", ranks, micros, 2, Placement::Dual);
  for (int rank = 0; rank < ranks; ++rank) {
    const int mirror = ranks - 1 - rank;
    const DualPipeWriter::Phase down = {rank, 0}, up = {mirror, micros / 2};
    const bool first = rank < mirror;
    write_rank(DualPipeWriter(out.ranks[rank], first ? down : up, first ? up : down), ranks / 2,
               std::min(rank, mirror), micros / 2);
  }
  return out;
}

// DualPipe folded at its middle: one copy of the stages, two stages per rank.
Schedule dualpipe_v(int ranks, int micros) {
  Schedule out = blank_schedule("dualpipe-v", ranks, micros, 2, Placement::V);
  for (int rank = 0; rank < ranks; ++rank)
    write_rank(DualPipeWriter(out.ranks[rank], {rank, 0}, {2 * ranks - 1 - rank, 0}), ranks, rank,
               micros);
  return out;
}

}  // namespace sextant
