#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/threads/group.h"
#include "comm/threads/progress_thread.h"
#include "comm/threads/rendezvous.h"
#include "comm/threads/small.h"
#include "comm/threads/world.h"
#include "fault/deadline.h"

namespace sextant::threads {

// A group of threads. In a collective every rank posts its call. Once all have arrived, each checks
// that the calls match, computes its share of the result in the memory of all ranks, and returns
// when no rank uses its memory any more.
class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(World& world, Group& group, int rank);
  ~ThreadCommunicator() override;

  int world_rank(int rank) const override { return group_.world_ranks[static_cast<size_t>(rank)]; }
  void abort(const std::string& reason) override;
  bool is_aborted() override { return world_.is_aborted(); }
  void check_alive() override;

  // Runs a job of the progress thread; does not throw.
  void run(const Job& job, WaitPolicy wait_policy);

  // Waits until all ranks have read the small broadcasts of this one; throws if some never will.
  void await_readers();

 protected:
  std::unique_ptr<Communicator> make_subgroup(std::span<const int> ranks, int own,
                                              const std::string& name) override;
  bool announce(const Call& call) override;
  void execute(const Call& call) override;
  int64_t start(const Call& call) override;
  void finish(int64_t ticket) override;
  void start_after(int64_t ticket) override;

 private:
  void finish_message(Ticket& ticket);

  // This rank's copy of what it posted in a slot; it does not read the slot itself (slots.cpp).
  struct Posted {
    int64_t sequence = 0;
    uint64_t identity = 0;
    int64_t bytes = 0;           // of its input, see posted_bytes
    int root = kNoRoot;          // of a small broadcast
    bool over = true;            // no rank reads the slot any more
    std::vector<uint8_t> lanes;  // by rank: the lane in which it posted this call, once seen
  };
  static constexpr int kNoRoot = -1;  // not a small broadcast: each rank waits for all

  // meet.cpp
  void run_collective(const Call& call, When when, WaitPolicy wait_policy);
  void post_call(const Call& call, int lane);
  void run_small(const Call& call, int lane, WaitPolicy wait_policy);
  void broadcast_small(const Call& call, int lane, WaitPolicy wait_policy);
  void run_large(const Call& call, int lane, WaitPolicy wait_policy);
  void agree_only(const Call& call, int lane, WaitPolicy wait_policy);
  void compute_own_share(const Call& call, int lane, WaitPolicy wait_policy);
  void compute_shares_of_core(const Call& call, int lane, WaitPolicy wait_policy);
  Rendezvous& rendezvous_of(const Call& call, int lane);
  bool have_same_identity(int64_t sequence, int lane, uint64_t identity);
  void wait_until_done(int64_t sequence, int lane, WaitPolicy wait_policy);
  [[noreturn]] void throw_mismatch(const Call& call, int lane, WaitPolicy wait_policy);
  [[noreturn]] void leave(int64_t sequence);
  void wait_for_workers(int64_t sequence);

  // slots.cpp
  void claim_slot(int64_t sequence, int lane, WaitPolicy wait_policy);
  bool is_over_for(int peer, int64_t sequence, int lane);
  bool is_over_for_all(int64_t sequence, int lane);
  bool is_free(int64_t sequence, int lane) {
    return posted(sequence, lane).over || is_free_now(sequence, lane);
  }
  bool is_free_now(int64_t sequence, int lane);
  bool has_arrived(int peer, int64_t sequence, int lane) {
    for (int other = 0; other < kLanes; ++other) {  // most likely in this rank's lane
      const int there = lane ^ other;
      if (group_.call_slots_of(peer, there)
              .slot(sequence)
              .sequence.load(std::memory_order_acquire) != sequence)
        continue;
      posted(sequence, lane).lanes[static_cast<size_t>(peer)] = static_cast<uint8_t>(there);
      return true;
    }
    return false;
  }
  void wait_for_arrivals(const Call& call, int lane, WaitPolicy wait_policy);
  void wait_for_arrival(const Call& call, int lane, int source, WaitPolicy wait_policy);
  template <class Ready, class IsMissing>
  void wait(const Call& call, int lane, WaitPolicy wait_policy, Ready&& ready,
            IsMissing&& is_missing);
  bool is_over(std::optional<Deadline>& deadline);

  // hang.cpp: aborts the world with a list of the missing ranks, if any still is.
  void report_missing(const Call& call, const std::vector<int>& missing);
  bool has_finished(int peer);

  // on_gpu.cpp: calls in the memory of a GPU that all ranks share.
  bool is_alone_on_gpu(const Call& call) const { return call.stream != nullptr && size() == 1; }
  const gpu::Event& mark_ready(const Call& call);
  void execute_on_gpu(const Call& call);
  void work_alone(const Call& call);
  void issue_to_gpu(const Call& call, int lane, WaitPolicy wait_policy);
  void issue_all(Rendezvous& rendezvous, GpuLane& gpu, int64_t sequence);
  void run_after(const Call& call, const gpu::Event& done);
  bool copy_on_gpu(Exchange& exchange);

  // messages.cpp
  void exchange(const Call& call);
  Mailbox& mailbox_of(const Call& call);
  void complete(Exchange& exchange, const Call& call);
  void copy(Exchange& exchange);
  void copy_beside(Exchange& exchange, const Call& call);
  Exchange::State copy_data(Exchange& exchange);
  void end(Exchange& exchange, Exchange::State state);

  int own_world_rank() const { return world_rank(rank()); }
  RankState& state() { return world_.rank(own_world_rank()); }
  CallSlots& own_slots(int lane) { return group_.call_slots_of(rank(), lane); }
  Posted& posted(int64_t sequence, int lane) {
    return posted_[static_cast<size_t>(lane)][static_cast<size_t>(sequence) % kSlots];
  }
  bool is_small(int64_t sequence, int lane) { return posted(sequence, lane).identity != kLarge; }
  // The slots in which another rank has posted a call; has_arrived must have returned true.
  CallSlots& slots_of(int peer, int64_t sequence, int lane) {
    return group_.call_slots_of(peer, posted(sequence, lane).lanes[static_cast<size_t>(peer)]);
  }

  World& world_;
  Group& group_;
  int64_t splits_ = 0;
  int64_t announced_ = 0;  // sequence number of the last announced call
  // By lane, so that each thread has its own.
  std::array<Rendezvous, kLanes> rendezvous_;
  std::array<std::array<Posted, kSlots>, kLanes> posted_;
  // By this rank's lane: CallSlots::seen of [lane, rank] as last read.
  std::array<std::vector<int64_t>, kLanes> seen_;
  // On a GPU: `ready` of the When::Now call in progress; by lane, the end of the last collective.
  std::unique_ptr<gpu::Event> now_ready_;
  std::array<const gpu::Event*, kLanes> done_on_gpu_{};
  Ticket* follows_ = nullptr;      // the next started call runs after this one
  std::exception_ptr copy_error_;  // of a message's copy on a GPU
};

}  // namespace sextant::threads
