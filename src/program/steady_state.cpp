#include "program/steady_state.h"

#include <algorithm>

#include "schedule/dependencies.h"

namespace sextant {
namespace {

// A period: blocks [begin, end) of which each equals the one `blocks` later with micro-batches
// `micros` later, as far as both are inside.
struct Period {
  size_t begin = 0, end = 0, blocks = 0;
  int micros = 0;
  size_t copies() const { return (end - begin) / blocks; }
};

class SteadyStateFinder {
 public:
  SteadyStateFinder(const Schedule& schedule, const RankProgram& program, const StateProgram& state)
      : schedule_(schedule),
        program_(program),
        state_(state),
        blocks_(program.blocks),
        first_(static_cast<size_t>(schedule.micros), program.blocks.size()),
        last_(static_cast<size_t>(schedule.micros), 0) {
    for (size_t at = 0; at < blocks_.size(); ++at)
      for_each_action(at, [&](const Action& action) {
        const auto micro = static_cast<size_t>(action.micro);
        first_[micro] = std::min(first_[micro], at);
        last_[micro] = at;
        sends_ = sends_ || is_comm(action.kind);
      });
  }

  // Candidates are the distances from the middle block to later blocks of the same kind. A run of
  // one chunk's actions repeats too, for a short while: the period that leaves out most wins.
  SteadyState find() {
    SteadyState best;
    const size_t middle = blocks_.size() / 2;
    for (size_t other = middle + 1; other < blocks_.size() && compared_ < most_compared();
         ++other) {
      const int later = action_of(other).micro - action_of(middle).micro;
      if (later <= 0 || !is_same(middle, other, later)) continue;
      const SteadyState found = cycles_of(grow(middle, other - middle, later));
      if (saved(found) > saved(best)) best = found;
      if (2 * saved(best) > blocks_.size()) break;
    }
    return best;
  }

 private:
  size_t most_compared() const { return 8 * blocks_.size(); }
  static size_t saved(const SteadyState& found) { return found.end() - found.leave; }

  const Action& action_of(size_t block) const {
    return program_.actions[static_cast<size_t>(blocks_[block].actions.begin)];
  }

  template <class F>
  void for_each_action(size_t block, F&& f) const {
    for (int64_t i = blocks_[block].actions.begin; i < blocks_[block].actions.end; ++i)
      f(program_.actions[static_cast<size_t>(i)]);
  }

  bool is_same(size_t one, size_t other, int later) {
    ++compared_;
    const RankProgram::Block &a = blocks_[one], &b = blocks_[other];
    if (a.actions.size() != b.actions.size() || a.uses.size() != b.uses.size()) return false;
    for (int64_t i = 0; i < a.actions.size(); ++i) {
      Action shifted = program_.actions[static_cast<size_t>(a.actions.begin + i)];
      const Action& action = program_.actions[static_cast<size_t>(b.actions.begin + i)];
      const int chunk = schedule_.chunk_of(shifted.stage, shifted.micro);
      shifted.micro += later;
      if (shifted != action || chunk != schedule_.chunk_of(action.stage, action.micro))
        return false;
    }
    for (int64_t i = 0; i < a.uses.size(); ++i)
      if (!is_same_use(static_cast<size_t>(a.uses.begin + i), static_cast<size_t>(b.uses.begin + i),
                       later))
        return false;
    return true;
  }

  bool is_same_use(size_t one, size_t other, int later) const {
    LayerUse shifted = program_.uses[one];
    shifted.micro += later;
    return shifted == program_.uses[other] &&
           std::ranges::equal(state_.before(one), state_.before(other)) &&
           std::ranges::equal(state_.after(one), state_.after(other));
  }

  Period grow(size_t middle, size_t blocks, int micros) {
    Period period{middle, middle, blocks, micros};
    while (period.end + blocks < blocks_.size() && is_same(period.end, period.end + blocks, micros))
      ++period.end;
    period.end += blocks;
    while (period.begin > 0 && is_same(period.begin - 1, period.begin - 1 + blocks, micros))
      --period.begin;
    return period;
  }

  SteadyState cycles_of(const Period& period) const {
    SteadyState out;
    const size_t kept = kept_copies(period), copies = period.copies();
    if (kept == 0 || copies <= kept) return out;
    out.leave = period.begin + kept * period.blocks;
    out.blocks = period.blocks;
    out.uses = blocks_[out.leave].uses.begin - blocks_[out.last()].uses.begin;
    out.micros = period.micros;
    out.left_out = static_cast<int>(copies - kept);
    return has_same_in_flight(out) ? out : SteadyState{};
  }

  // More copies than a micro-batch is in flight, so that the memory of the last ones is in steady
  // state too. A message is freed when two later ones have been sent; a program that begins with
  // its steady state, such as a forward only, sends them in its first copies. 0 if no micro-batch
  // begins and ends within the period, as in GPipe.
  size_t kept_copies(const Period& period) const {
    size_t longest = 0;
    bool is_any = false;
    for (size_t micro = 0; micro < first_.size(); ++micro) {
      if (first_[micro] < period.begin || last_[micro] >= period.end) continue;
      longest = std::max(longest, last_[micro] - first_[micro]);
      is_any = true;
    }
    if (!is_any) return 0;
    const size_t in_flight = longest / period.blocks;
    return sends_ ? std::max<size_t>(in_flight + 4, 6) : in_flight + 2;
  }

  // Whether leaving out cycles only renames the micro-batches in flight; lists them.
  bool has_same_in_flight(SteadyState& state) const {
    const std::vector<int> before = done_at(state.leave), after = done_at(state.end());
    const auto later = static_cast<size_t>(state.left_out * state.micros);
    size_t at_end = 0;
    for (size_t micro = 0; micro < first_.size(); ++micro) {
      if (first_[micro] < state.end() && last_[micro] >= state.end()) ++at_end;
      if (first_[micro] >= state.leave || last_[micro] < state.leave) continue;
      if (micro + later >= first_.size() || before[micro] != after[micro + later]) return false;
      state.in_flight.push_back(static_cast<int>(micro));
    }
    return at_end == state.in_flight.size();
  }

  // Actions before a block, by micro-batch.
  std::vector<int> done_at(size_t block) const {
    std::vector<int> done(first_.size(), 0);
    for (size_t at = 0; at < block; ++at)
      for_each_action(at, [&](const Action& action) { ++done[static_cast<size_t>(action.micro)]; });
    return done;
  }

  const Schedule& schedule_;
  const RankProgram& program_;
  const StateProgram& state_;
  const std::vector<RankProgram::Block>& blocks_;
  std::vector<size_t> first_, last_;  // blocks of each micro-batch
  size_t compared_ = 0;
  bool sends_ = false;
};

}  // namespace

SteadyState find_steady_state(const Schedule& schedule, const RankProgram& program,
                              const StateProgram& state) {
  return SteadyStateFinder(schedule, program, state).find();
}

}  // namespace sextant
