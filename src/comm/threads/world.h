#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/ledger.h"
#include "comm/run_ranks.h"
#include "comm/threads/bell.h"
#include "comm/threads/group.h"
#include "comm/threads/progress_thread.h"

namespace sextant::threads {

// What one rank has, over all of its groups.
struct RankState {
  explicit RankState(const Clock& clock) : ledger(clock) {}

  Ledger ledger;
  ProgressThread progress_thread;
  std::atomic<bool> finished{false};  // its function has returned
  std::atomic<bool> echoed{false};    // it threw what another rank's failure made it throw
};

// What the ranks of a process share: the groups, and whether it is all over.
class World {
 public:
  World(int ranks, const Clock& clock, const WorldOptions& options);

  int size() const { return static_cast<int>(ranks_.size()); }
  RankState& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  double deadline_s() const { return deadline_s_; }
  const Clock& clock() const { return clock_; }
  // Of a rank's own thread; its progress thread always yields to it.
  Patience patience() const { return patience_; }

  // The group of this key, made by the first of its members to join. Each joins and leaves once; it
  // goes with the last.
  Group& join(const GroupKey& key, const std::string& name, const std::vector<int>& members);
  void leave(Group& group);

  // The first one counts: its reason is what everybody throws from then on.
  void abort(int rank, const std::string& reason);
  bool is_aborted() const { return aborted_.load(); }
  [[noreturn]] void throw_aborted(int rank);  // `rank` is the one that throws

  // After something happened that sleepers of any group may care about.
  void ring_all();

 private:
  const Clock& clock_;
  double deadline_s_;
  Patience patience_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;  // of what follows
  std::string reason_;
  int aborted_by_ = -1;
  std::vector<std::unique_ptr<Group>> groups_;
  int64_t last_group_ = 0;
};

}  // namespace sextant::threads
