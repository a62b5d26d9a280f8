#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/threads/courier.h"
#include "comm/threads/group.h"
#include "comm/threads/meeting.h"
#include "comm/threads/world.h"
#include "fault/deadline.h"

namespace sextant::threads {

// A rank's end of a group of threads. A collective is a meeting: every rank shows its call, and
// when all have arrived each checks that they agree, does its part of the work in the memory of
// all, and goes when nobody uses its memory any more.
class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(World& world, Group& group, int rank);
  ~ThreadCommunicator() override;

  int world_rank(int rank) const override { return group_.world_ranks[static_cast<size_t>(rank)]; }
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name) override;
  void abort(const std::string& reason) override;

  // What the courier was given; nothing is thrown.
  void run(const Job& job, Patience patience);

 protected:
  void execute(const Call& call) override;
  int64_t start(const Call& call) override;
  void finish(int64_t ticket) override;

 private:
  // meet.cpp
  void meet(const Call& call, When when, Patience patience);
  void wait_for_arrivals(const Call& call, int seat, Patience patience);
  void wait_until_done(int64_t sequence, int seat, Patience patience);
  bool has_arrived(int peer, const Call& call, int seat);
  bool is_over(std::optional<Deadline>& deadline);
  [[noreturn]] void leave(int64_t sequence, int seat);
  // hang.cpp: ends the world with who is missing, if anybody still is.
  void report_missing(const Call& call, const std::vector<int>& missing);
  bool has_finished(int peer);
  std::vector<int> missing(const Call& call, int seat);

  // messages.cpp
  Mailbox& mailbox_of(const Call& call);
  void complete(Exchange& exchange, const Call& call);
  void copy(Exchange& exchange);
  void wait_for_copy(Exchange& exchange);

  int own_world_rank() const { return world_rank(rank()); }
  RankState& state() { return world_.rank(own_world_rank()); }
  Meeting& meeting(int seat) { return meetings_[static_cast<size_t>(seat)]; }

  World& world_;
  Group& group_;
  int64_t splits_ = 0;
  std::array<int, kLanes> turns_{};  // of the next call
  std::array<Meeting, kSeats> meetings_;
  // Small calls that this rank has left while others may still look at its cell; 0: none.
  std::array<int64_t, kSeats> left_{};
};

}  // namespace sextant::threads
