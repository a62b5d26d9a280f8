#include "comm/threads/world.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/device.h"

namespace sextant::threads {

World::World(int ranks, const Clock& clock, const WorldOptions& options)
    : clock_(clock),
      deadline_s_(options.timeout_s),
      wait_policy_(ranks <= available_cores() ? WaitPolicy::Spin : WaitPolicy::Yield) {
  SXT_CHECK(ranks > 0, Usage, "a world of ", ranks, " ranks");
  SXT_CHECK(options.timeout_s > 0, Usage, "a deadline of ", options.timeout_s, " s");
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.push_back(std::make_unique<RankState>(clock));
    ranks_.back()->ledger.rank = rank;
    ranks_.back()->ledger.spans = options.spans;
  }
}

Group& World::join(const GroupKey& key, const std::string& name, const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Group>& group : groups_)
    if (group->key == key) {
      SXT_CHECK(group->world_ranks == members, Usage, "group ", name,
                ": its members gave different lists of ranks");
      return *group;
    }
  groups_.push_back(std::make_unique<Group>(key, ++last_group_, name, members));
  return *groups_.back();
}

void World::leave(Group& group) {
  const std::lock_guard lock(mutex_);
  if (--group.members_left > 0) return;
  std::erase_if(groups_, [&](const auto& other) { return other.get() == &group; });
}

void World::abort(int rank, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_by_ >= 0) return;
    aborted_by_ = rank;
    reason_ = reason;
    aborted_.store(true);
  }
  ring_all();
}

void World::throw_aborted(int rank) {
  const std::lock_guard lock(mutex_);
  if (rank != aborted_by_) this->rank(rank).echoed.store(true);
  throw Error(Fault::Peer, reason_);
}

void World::ring_all() {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Group>& group : groups_) group->event_count.notify();
}

}  // namespace sextant::threads
