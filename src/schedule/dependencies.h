#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace sextant {

// Which actions wait for which, for the passes that run a schedule in the mind.

inline bool is_compute(Kind kind) {
  return kind <= Kind::W;
}
inline bool is_comm(Kind kind) {
  return kind >= Kind::SendF && kind <= Kind::RecvB;
}
inline uint16_t bit(Kind kind) {
  return static_cast<uint16_t>(1 << static_cast<int>(kind));
}

// One of these kinds of (stage, micro) has to be done before; none when `any_of` is 0.
struct Need {
  int stage = 0, micro = 0;
  uint16_t any_of = 0;
};

// Whether what another rank makes comes by a receive of its own, or by itself.
enum class Receives { Listed, Implied };

// What has been done of every (stage, micro), as bits of its kinds.
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

// The stage that takes up what F (B or I) of this stage gives; -1 at the end of the pipe.
int consumer(const Schedule& schedule, Kind kind, int stage);
// Whether that is on another rank.
bool crosses(const Schedule& schedule, const Action& action);

// How many actions, 1 or 2, the one at `at` makes up with the one that it is joined to.
size_t block_size(const std::vector<Action>& todo, size_t at);

}  // namespace sextant
