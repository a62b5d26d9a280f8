#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace sextant {

// A thread that runs jobs one at a time, in the order pushed. Jobs do not throw.
class JobThread {
 public:
  JobThread();
  ~JobThread();                             // after all queued jobs have run
  int64_t push(std::function<void()> job);  // returns the job's number, ascending
  void wait_for(int64_t job);
  void wait_idle();  // until all jobs are done

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  int64_t pushed_ = 0, done_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace sextant
