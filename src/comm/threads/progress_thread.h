#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/call.h"
#include "comm/threads/event_count.h"
#include "tensor/gpu.h"

namespace sextant::threads {

class ThreadCommunicator;
struct Exchange;

// A When::Later call that has not been waited for.
struct Ticket {
  std::atomic<bool> done{false};
  std::exception_ptr error;  // set before done
  Call call;
  Exchange* exchange = nullptr;  // of a message
  // On a GPU.
  std::unique_ptr<gpu::Event> ready;        // Call::ready
  const gpu::Event* done_on_gpu = nullptr;  // end of a collective; set before done
  Ticket* follows = nullptr;                // the call to run after
  std::atomic<int> followers{0};            // calls that will run after this one: keep it
};

// Work for the progress thread: a collective with its ticket, or the copy of a matched message.
struct Job {
  ThreadCommunicator* communicator = nullptr;
  Ticket* ticket = nullptr;
  Exchange* exchange = nullptr;
  Call call = {};  // this side of the message
};

// Runs the jobs of one rank one at a time, in the order added, on a thread that starts with the
// first job and sleeps when there are none. A rank that waits for a job runs the queue up to that
// job itself if the progress thread has not begun it, which saves a wake-up.
class ProgressThread {
 public:
  ProgressThread() = default;
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // The next five are used by the rank's thread only.
  int64_t take_ticket();
  Ticket& ticket(int64_t number) { return *tickets_[static_cast<size_t>(number)]; }
  void return_ticket(int64_t number);
  void add(const Job& job);
  void wait(const Ticket& ticket, WaitPolicy wait_policy);  // for a collective

  // Waits until the queue is empty and no job runs.
  void drain();
  // Removes the queued jobs of a communicator that is being destroyed.
  void forget(const ThreadCommunicator& communicator);

 private:
  void work();
  // Runs the next job with `lock` released.
  void run_next(std::unique_lock<std::mutex>& lock, WaitPolicy wait_policy);

  std::vector<std::unique_ptr<Ticket>> tickets_;
  std::vector<int64_t> free_tickets_;
  std::vector<int64_t> kept_tickets_;  // returned, but with followers

  std::thread thread_;
  std::mutex mutex_;  // guards all below
  std::condition_variable added_, ended_;
  std::vector<Job> jobs_;  // a ring
  size_t first_ = 0, count_ = 0;
  bool running_ = false;                         // a thread runs a job
  const ThreadCommunicator* current_ = nullptr;  // of that job
  bool stop_ = false;
};

}  // namespace sextant::threads
