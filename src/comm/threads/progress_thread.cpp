#include "comm/threads/progress_thread.h"

#include <system_error>

#include "base/error.h"
#include "comm/threads/thread_communicator.h"

namespace sextant::threads {

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  added_.notify_all();
  if (thread_.joinable()) thread_.join();
}

int64_t ProgressThread::take_ticket() {
  std::erase_if(kept_tickets_, [&](int64_t number) {
    if (ticket(number).followers.load() > 0) return false;
    free_tickets_.push_back(number);
    return true;
  });
  if (free_tickets_.empty()) {
    tickets_.push_back(std::make_unique<Ticket>());
    free_tickets_.reserve(tickets_.size());
    kept_tickets_.reserve(tickets_.size());
    free_tickets_.push_back(static_cast<int64_t>(tickets_.size()) - 1);
  }
  const int64_t number = free_tickets_.back();
  free_tickets_.pop_back();
  ticket(number).done.store(false);
  ticket(number).done_on_gpu = nullptr;
  return number;
}

void ProgressThread::return_ticket(int64_t number) {
  ticket(number).error = nullptr;
  ticket(number).exchange = nullptr;
  (ticket(number).followers.load() > 0 ? kept_tickets_ : free_tickets_).push_back(number);
}

void ProgressThread::add(const Job& job) {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& error) {
      SXT_FAIL(Failure, "no thread for communication: ", error.what());
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (count_ == jobs_.size()) {
      std::vector<Job> larger(jobs_.empty() ? 16 : 2 * jobs_.size());
      for (size_t i = 0; i < count_; ++i) larger[i] = jobs_[(first_ + i) % jobs_.size()];
      jobs_ = std::move(larger);
      first_ = 0;
    }
    jobs_[(first_ + count_++) % jobs_.size()] = job;
  }
  added_.notify_one();
}

void ProgressThread::run_next(std::unique_lock<std::mutex>& lock, WaitPolicy wait_policy) {
  const Job job = jobs_[first_];
  first_ = (first_ + 1) % jobs_.size();
  --count_;
  if (job.communicator == nullptr) {  // forgotten; drain may wait for it
    ended_.notify_all();
    return;
  }
  running_ = true;
  current_ = job.communicator;
  lock.unlock();
  job.communicator->run(job, wait_policy);
  lock.lock();
  running_ = false;
  current_ = nullptr;
  ended_.notify_all();
}

void ProgressThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    added_.wait(lock, [&] { return (count_ > 0 && !running_) || stop_; });
    if (stop_) return;
    run_next(lock, WaitPolicy::Yield);
  }
}

void ProgressThread::wait(const Ticket& ticket, WaitPolicy wait_policy) {
  constexpr int kLooks = 200;
  for (int look = 0; look < kLooks && !ticket.done.load(); ++look) pause_briefly();
  if (ticket.done.load()) return;
  std::unique_lock lock(mutex_);
  while (!ticket.done.load()) {
    if (count_ > 0 && !running_)
      run_next(lock, wait_policy);
    else
      ended_.wait(lock);
  }
  if (count_ > 0) added_.notify_one();  // the progress thread may be asleep
}

void ProgressThread::drain() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return count_ == 0 && !running_; });
}

void ProgressThread::forget(const ThreadCommunicator& communicator) {
  std::unique_lock lock(mutex_);
  for (size_t i = 0; i < count_; ++i) {
    Job& job = jobs_[(first_ + i) % jobs_.size()];
    if (job.communicator == &communicator) job.communicator = nullptr;
  }
  ended_.wait(lock, [&] { return current_ != &communicator; });
}

}  // namespace sextant::threads
