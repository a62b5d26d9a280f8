#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "comm/nccl/library.h"
#include "comm/nccl/rank.h"

namespace sextant::nccl {

// Messages need no staging memory, of which there may be many connections made during a step.
enum class Carries : uint8_t { Collectives, Messages };

// One communicator of NCCL with its queue. Non-blocking: a call returns at once, and the
// communicator is ready for the next one when ncclCommGetAsyncError says so; only then the work is
// in the queue.
class Connection {
 public:
  // Each returns when all ranks of the new communicator have made it.
  //   ranks, own   of the communicator and of this rank in it
  static Connection& create(Rank& rank, const std::string& name, const ncclUniqueId& id, int ranks,
                            int own, Carries carries = Carries::Collectives);
  // Collective over this connection. `color` < 0: this rank belongs to no part; returns null.
  Connection* split(const std::string& name, int color, int ranks, int own);
  static ncclUniqueId make_id();

  const std::string& name() const { return name_; }
  int size() const { return size_; }
  int own() const { return own_; }
  gpu::Queue& queue() { return queue_; }
  // kNcclStaging bytes, of this queue's work; null for messages. Allocated with the connection, as
  // steps allocate nothing.
  std::byte* staging() const { return staging_; }
  Rank& rank() const { return rank_; }
  // Calls of a graph that were recorded in this queue; used by Rank.
  int64_t recorded = 0;
  // In pinned memory: how many of them have ended since the launch. Counted by this queue's work.
  int64_t* counter() { return counter_; }
  int64_t counted() const { return std::atomic_ref(*counter_).load(std::memory_order_relaxed); }
  // Only while no launch is under way.
  void reset_counter() { std::atomic_ref(*counter_).store(0, std::memory_order_relaxed); }

  // Calls f(communicator, stream), which makes calls of NCCL and returns the first code that is not
  // ncclSuccess, as one group. Returns when all of them are in the queue. `what`: for errors.
  template <class F>
  void issue(const std::string& what, F&& f) {
    {
      const std::lock_guard lock(mutex_);
      check_usable();
      gpu::select(queue_.index());
      const Library& nccl = library();
      ncclResult_t code = nccl.group_start();
      if (code == ncclSuccess) code = f(handle_, queue_.handle());
      const ncclResult_t end = nccl.group_end();
      take_code(code == ncclSuccess || code == ncclInProgress ? end : code);
    }
    await(what);
  }

  // The state that ncclCommGetAsyncError gives; ncclSuccess after an abort. Any thread.
  ncclResult_t state();
  std::string describe(ncclResult_t code);  // "unhandled cuda error (...)"
  void abort() noexcept;                    // any thread
  void begin_finalize();                    // flushes what was issued
  void end_finalize();                      // waits for all ranks, then frees it

  Connection(Rank& rank, std::string name, int ranks, int own, Carries carries);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

 private:
  void check_usable();                // requires mutex_
  void take_code(ncclResult_t code);  // requires mutex_: keeps the code of a failed call
  void await(const std::string& what);

  Rank& rank_;
  const std::string name_;
  const int size_, own_;
  gpu::Queue queue_;
  std::byte* staging_ = nullptr;
  int64_t* counter_ = nullptr;
  std::mutex mutex_;  // of all calls on handle_, which abort frees
  ncclComm_t handle_ = nullptr;
  ncclResult_t code_ = ncclSuccess;  // of the call that failed
  bool is_aborted_ = false;
};

}  // namespace sextant::nccl
