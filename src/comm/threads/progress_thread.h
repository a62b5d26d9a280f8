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
#include "comm/threads/bell.h"

namespace sextant::threads {

class ThreadCommunicator;
struct Exchange;

// A call with When::Later until it is waited for.
struct Ticket {
  std::atomic<bool> done{false};
  std::exception_ptr error;  // set before done
  Call call;
  Exchange* exchange = nullptr;  // of a message
};

// Something to be run beside the rank's thread: a collective with its ticket, or a message that
// only needs copying.
struct Job {
  ThreadCommunicator* communicator = nullptr;
  Ticket* ticket = nullptr;
  Exchange* exchange = nullptr;
  Call call = {};  // this side of the message
};

// Runs the jobs of one rank in the order they came, one at a time, on a thread that is made with
// the first of them and sleeps when there are none. A rank that waits for a job runs those before
// it, and it, itself, if the progress thread has not got to them: that saves waking it.
class ProgressThread {
 public:
  ProgressThread() = default;
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // These five by the rank's thread only.
  int64_t take_ticket();
  Ticket& ticket(int64_t number) { return *tickets_[static_cast<size_t>(number)]; }
  void return_ticket(int64_t number);
  void add(const Job& job);
  void wait(const Ticket& ticket, Patience patience);  // for a collective

  // Until there is nothing left to run.
  void drain();
  // It goes away: messages of it that nobody waits for any more are not looked at again.
  void forget(const ThreadCommunicator& communicator);

 private:
  void work();
  // Runs the next job; `lock` is open meanwhile.
  void run_next(std::unique_lock<std::mutex>& lock, Patience patience);

  std::vector<std::unique_ptr<Ticket>> tickets_;
  std::vector<int64_t> free_tickets_;

  std::thread thread_;
  std::mutex mutex_;  // of what follows
  std::condition_variable added_, ended_;
  std::vector<Job> jobs_;  // a ring
  size_t first_ = 0, count_ = 0;
  bool running_ = false;                         // somebody runs a job
  const ThreadCommunicator* current_ = nullptr;  // of that job
  bool stop_ = false;
};

}  // namespace sextant::threads
