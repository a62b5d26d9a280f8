#include "comm/job_thread.h"

#include <utility>

namespace sextant {

JobThread::JobThread() : thread_([this] { work(); }) {}

JobThread::~JobThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

int64_t JobThread::push(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return ++pushed_;
}

void JobThread::wait_for(int64_t job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= job; });
}

void JobThread::wait_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ == pushed_; });
}

void JobThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace sextant
