#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/ledger.h"
#include "comm/run_ranks.h"
#include "comm/threads/event_count.h"
#include "comm/threads/group.h"
#include "comm/threads/progress_thread.h"

namespace sextant::threads {

// State of one rank over all of its groups.
struct RankState {
  explicit RankState(const Clock& clock) : ledger(clock) {}

  Ledger ledger;
  ProgressThread progress_thread;
  std::atomic<bool> finished{false};  // its function has returned
  std::atomic<bool> echoed{false};    // it threw an error caused by another rank's abort
};

// State that the ranks of a process share: the groups and the abort flag.
class World {
 public:
  World(int ranks, const Clock& clock, const WorldOptions& options);

  int size() const { return static_cast<int>(ranks_.size()); }
  RankState& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  double timeout_s() const { return deadline_s_; }
  const Clock& clock() const { return clock_; }
  // For a rank's own thread; progress threads always yield.
  WaitPolicy wait_policy() const { return wait_policy_; }

  // The group of this key, created by the first member to join and destroyed when the last one
  // leaves. Each member joins and leaves once.
  Group& join(const GroupKey& key, const std::string& name, const std::vector<int>& members);
  void leave(Group& group);

  // From the first call on, all ranks throw its reason; later calls are ignored.
  void abort(int rank, const std::string& reason);
  bool is_aborted() const { return aborted_.load(); }
  [[noreturn]] void throw_aborted(int rank);  // `rank` is the one that throws

  // Wakes the sleepers of all groups.
  void ring_all();

 private:
  const Clock& clock_;
  double deadline_s_;
  WaitPolicy wait_policy_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;  // guards all below
  std::string reason_;
  int aborted_by_ = -1;
  std::vector<std::unique_ptr<Group>> groups_;
  int64_t last_group_ = 0;
};

}  // namespace sextant::threads
