#pragma once
#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"

// Library calls: an MPI error is Error(Peer), as what remains after the checks of calls is a peer
// or a network that went away.
#define SXT_MPI(call) ::sextant::mpi::check_code(call, #call)

namespace sextant::mpi {

void check_code(int code, const char* call);

// Jobs that run one after another beside the rank's thread.
class Courier {
 public:
  Courier();
  ~Courier();                               // what is queued is still run
  int64_t push(std::function<void()> job);  // gives the job a number, ascending
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

// MPI in this process: begins and ends it, and knows whether the ranks are still all well.
//
// After a failure no thread calls MPI again: requests that never ended may point to memory that is
// gone, and only calls into MPI would touch it.
class Process {
 public:
  Process(const Clock& clock, double deadline_s);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int largest_tag() const { return largest_tag_; }
  const Clock& clock() const { return clock_; }
  double deadline_s() const { return deadline_s_; }
  Courier& courier() { return courier_; }
  // For one collective at a time.
  std::span<std::byte> staging() { return staging_; }

  // Error(Peer) once a rank, this one or another, has failed.
  void check();
  // Looks whether another rank told of its end; then as check.
  void listen();
  // Tells all other ranks, once, that this one `did` so: "failed". From now on check throws. Any
  // thread.
  void fail(const std::string& reason, const char* did = "failed");
  bool has_failed() const { return failed_.load(); }
  // The failure is another rank's, which told of it.
  bool was_told() const { return told_.load(); }
  void finalize();

  // A number above those of all groups of this rank. Its own thread only.
  int next_group() const { return next_group_; }
  void set_next_group(int number) { next_group_ = number; }

 private:
  void tell(const std::string& reason);

  const Clock& clock_;
  double deadline_s_;
  int rank_ = 0, size_ = 1;
  int largest_tag_ = 0;
  int next_group_ = 1;  // the world is 0
  MPI_Comm notices_ = MPI_COMM_NULL;
  std::vector<std::byte> staging_;
  std::atomic<bool> failed_{false}, told_{false};
  std::mutex mutex_;  // of what follows
  std::string reason_;
  Courier courier_;
};

}  // namespace sextant::mpi
