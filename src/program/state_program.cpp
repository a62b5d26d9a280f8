#include "program/state_program.h"

#include <algorithm>
#include <map>

namespace sextant {

class StateProgramBuilder {
 public:
  StateProgramBuilder(StateProgram& out, const GroupPlan& plan, std::vector<int> zero)
      : out_(out), plan_(plan), zero_(std::move(zero)), groups_(plan.groups.size()) {
    find_tied();
    int micros = 0;
    for (const LayerUse& use : out_.uses_) micros = std::max(micros, use.micro + 1);
    left_.resize(groups_.size() * static_cast<size_t>(micros));
    for (const LayerUse& use : out_.uses_) {
      if (!gives_gradients(use.pass)) continue;
      for_groups(use, [&](int group) {
        ++group_at(group).gradients_left;
        ++left_[index_of(use, group)];
      });
    }
    wanted_ = left_;
    find_next_reads();
  }

  void build() {
    const size_t size = out_.uses_.size();
    lists_.resize(2 * size + 1);
    for (size_t at = 0; at < size; ++at) {
      before(at);
      after(at);
    }
    list_ = 2 * size;
    if (in_flight_ >= 0) add(StateStep::FreeBucket, in_flight_);
    out_.marks_ = {0};
    for (const std::vector<StateEvent>& list : lists_) {
      out_.events_.insert(out_.events_.end(), list.begin(), list.end());
      out_.marks_.push_back(out_.events_.size());
    }
  }

 private:
  struct Group {
    bool is_tied = false;  // its layers are not contiguous: a tied embedding
    bool is_awaited = false;
    bool is_gathered = false;
    bool is_open = false;
    bool has_bucket = false;
    bool has_closed = false;  // a contribution was completed
    int between = 0;          // passes between two of their phases
    int unfinished = 0;       // micro-batches whose gradient is incomplete
    int gradients_left = 0;   // remaining uses that add to the gradient
  };

  template <class F>
  void for_groups(const LayerUse& use, F&& f) const {
    plan_.for_groups_of(static_cast<size_t>(use.layer), f);
  }
  size_t index_of(const LayerUse& use, int group) const {
    return static_cast<size_t>(use.micro) * groups_.size() + static_cast<size_t>(group);
  }
  bool uses(const LayerUse& use, int group) const {
    return plan_.uses(static_cast<size_t>(use.layer), group);
  }
  Group& group_at(int group) { return groups_[static_cast<size_t>(group)]; }
  int zero_of(int group) const { return zero_[static_cast<size_t>(group)]; }
  bool reads(const LayerUse& use) const {
    if (use.pass == Pass::Weight) return false;
    return !gives_gradients(use.pass) || plan_.reads_in_backward[static_cast<size_t>(use.layer)];
  }
  void add(StateStep step, int group, bool is_first = false, bool is_last = false) {
    lists_[list_].push_back({step, is_first, is_last, group});
  }

  void find_tied() {
    std::map<int, std::vector<size_t>> layers;
    for (size_t layer = 0; layer < plan_.group_of_layer.size(); ++layer)
      layers[plan_.group_of_layer[layer]].push_back(layer);
    for (const auto& [group, of] : layers)
      groups_[static_cast<size_t>(group)].is_tied = of.back() - of.front() + 1 != of.size();
  }

  // Whether the groups that one use gathers are among those of another.
  bool is_within(const LayerUse& use, const LayerUse& other) const {
    bool all = true;
    for_groups(use, [&](int group) { all = all && (zero_of(group) < 3 || uses(other, group)); });
    return all;
  }

  // By use: the next use that reads weights, and the next one that reads weights of another group.
  void find_next_reads() {
    const size_t size = out_.uses_.size();
    next_read_.assign(size, size);
    next_other_.assign(size, size);
    size_t next = size;
    for (size_t at = size; at-- > 0;) {
      next_read_[at] = next;
      const bool is_same = next < size && is_within(out_.uses_[next], out_.uses_[at]);
      next_other_[at] = is_same ? next_other_[next] : next;
      if (reads(out_.uses_[at])) next = at;
    }
  }

  void before(size_t at) {
    list_ = 2 * at;
    const LayerUse& use = out_.uses_[at];
    bool has_opened = false;
    for_groups(use, [&](int group) {
      Group& state = group_at(group);
      if (zero_of(group) < 3 && !state.is_awaited) add(StateStep::AwaitWeights, group);
      state.is_awaited = true;
      if (zero_of(group) < 3 || !reads(use) || state.is_open) return;
      gather(group);
      add(StateStep::BindWeights, group);
      state.is_open = has_opened = true;
    });
    if (has_opened) prefetch(at);
    if (gives_gradients(use.pass))
      for_groups(use, [&](int group) { begin_gradient(use, group, group_at(group)); });
  }

  // The next window; not those of passes between two phases, which are open.
  void prefetch(size_t at) {
    size_t next = next_other_[at];
    while (next < out_.uses_.size() && is_held(out_.uses_[next])) next = next_other_[next];
    if (next == out_.uses_.size()) return;
    for_groups(out_.uses_[next], [&](int group) {
      if (zero_of(group) == 3) gather(group);
    });
  }

  bool is_held(const LayerUse& use) {
    bool all = true;
    for_groups(
        use, [&](int group) { all = all && (zero_of(group) < 3 || group_at(group).between > 0); });
    return all;
  }

  void gather(int group) {
    Group& state = group_at(group);
    if (!state.is_gathered) add(StateStep::GatherWeights, group);
    state.is_gathered = true;
  }

  void begin_gradient(const LayerUse& use, int group, Group& state) {
    const size_t index = index_of(use, group);
    if (left_[index] != wanted_[index]) return;
    if (++state.unfinished > 1) return;
    if (zero_of(group) < 2 && !(state.is_tied && state.has_closed)) return;
    if (in_flight_ == group) {
      add(StateStep::FreeBucket, group);
      in_flight_ = -1;
    }
    add(StateStep::OpenBucket, group);
    state.has_bucket = true;
  }

  // The weights stay for the next use that reads, and for passes between two phases.
  void after(size_t at) {
    list_ = 2 * at + 1;
    const LayerUse& use = out_.uses_[at];
    const size_t next = next_read_[at];
    for_groups(use, [&](int group) {
      Group& state = group_at(group);
      if (use.phase != Phase::Whole && use.begins()) ++state.between;
      if (use.phase != Phase::Whole && use.ends()) --state.between;
      const bool is_needed =
          state.between > 0 || (next < out_.uses_.size() && uses(out_.uses_[next], group));
      if (zero_of(group) == 3 && reads(use) && !is_needed) {
        add(StateStep::FreeWeights, group);
        state.is_gathered = state.is_open = false;
      }
      if (gives_gradients(use.pass)) end_gradient(use, group, state);
    });
  }

  void end_gradient(const LayerUse& use, int group, Group& state) {
    --state.gradients_left;
    if (--left_[index_of(use, group)] > 0 || --state.unfinished > 0) return;
    const bool is_last = state.gradients_left == 0;
    if (zero_of(group) >= 2) {
      if (in_flight_ >= 0) add(StateStep::FreeBucket, in_flight_);
      in_flight_ = group;
    }
    if (state.has_bucket || is_last || (state.is_tied && !state.has_closed))
      add(StateStep::ReduceBucket, group, !state.has_closed, is_last);
    state.has_bucket = false;
    state.has_closed = true;
  }

  StateProgram& out_;
  std::vector<std::vector<StateEvent>> lists_;  // before and after each use, and at the end
  size_t list_ = 0;                             // the one in the making
  const GroupPlan& plan_;
  std::vector<int> zero_;  // by group
  std::vector<Group> groups_;
  std::vector<int> left_, wanted_;  // gradient uses, by micro and group
  std::vector<size_t> next_read_, next_other_;
  int in_flight_ = -1;  // group whose bucket is being reduced
};

StateProgram::StateProgram(const GroupPlan& plan, std::vector<LayerUse> uses, std::vector<int> zero)
    : uses_(std::move(uses)) {
  StateProgramBuilder(*this, plan, std::move(zero)).build();
}

}  // namespace sextant
