#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace sextant {

// Dependencies between actions, for the passes that simulate a schedule.

inline bool is_compute(Kind kind) {
  return kind <= Kind::W;
}
inline bool is_comm(Kind kind) {
  return kind >= Kind::SendF && kind <= Kind::RecvB;
}
inline uint16_t bit(Kind kind) {
  return static_cast<uint16_t>(1 << static_cast<int>(kind));
}

// One action of these kinds on (stage, micro) must come first; no dependency when `any_of` is 0.
struct Need {
  int stage = 0, micro = 0;
  uint16_t any_of = 0;
};

// Whether outputs of other ranks need a receive in the list, or arrive without one.
enum class Receives { Listed, Implied };

// The kinds of actions done for every (stage, micro), as a bit mask.
class Done {
 public:
  explicit Done(const Schedule& schedule)
      : micros_(schedule.micros),
        bits_(static_cast<size_t>(schedule.stages) * static_cast<size_t>(schedule.micros)) {}
  bool has(int stage, int micro, uint16_t any_of) const { return (at(stage, micro) & any_of) != 0; }
  bool meets(const Need& need) const {
    return need.any_of == 0 || has(need.stage, need.micro, need.any_of);
  }
  void add(const Action& action) { bits_[index(action.stage, action.micro)] |= bit(action.kind); }
  uint16_t at(int stage, int micro) const { return bits_[index(stage, micro)]; }

 private:
  size_t index(int stage, int micro) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(micros_) + static_cast<size_t>(micro);
  }
  int micros_;
  std::vector<uint16_t> bits_;
};

std::array<Need, 2> needs_of(const Schedule& schedule, const Action& action, Receives receives);

// The stage that consumes the output of F (B or I) of this stage; -1 at the end of the pipeline.
int consumer(const Schedule& schedule, Kind kind, int stage);
// Whether the consumer is on another rank.
bool crosses(const Schedule& schedule, const Action& action);

// Number of actions in the block at `at`: 2 if it is joined with the next action, else 1.
size_t block_size(const std::vector<Action>& todo, size_t at);

}  // namespace sextant
