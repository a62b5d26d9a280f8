#pragma once
#include <mpi.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/late.h"
#include "fault/deadline.h"

// Library calls: an MPI error is Error(Peer), as what remains after the checks of calls is a peer
// or a network that went away.
#define SXT_MPI(call) ::sextant::mpi::check_code(call, #call)

namespace sextant::mpi {

void check_code(int code, const char* call);

// Jobs that run one after another beside the rank's thread.
class ProgressThread {
 public:
  ProgressThread();
  ~ProgressThread();                        // what is queued is still run
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

// SIGTERM while it lives: mpirun sends it when a rank was killed, and kills the others a second
// later. Who waits then can still say for whom.
class EndWatch {
 public:
  EndWatch();
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;
  static bool has_come();

 private:
  struct sigaction before_ {};
};

// MPI in this process: begins and ends it, and knows whether the ranks are still all well.
//
// After a failure no thread calls MPI again: requests that never ended may point to memory that is
// gone, and only calls into MPI would touch it.
class Process {
 public:
  // `ledger`: what others are told of this rank when they ask.
  Process(const Clock& clock, double deadline_s, const Ledger& ledger);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int largest_tag() const { return largest_tag_; }
  const Clock& clock() const { return clock_; }
  double deadline_s() const { return deadline_s_; }
  const Ledger& ledger() const { return ledger_; }
  ProgressThread& progress_thread() { return progress_thread_; }
  // For one collective at a time.
  std::span<std::byte> staging() { return staging_; }

  // Error(Peer) once a rank, this one or another, has failed.
  void check();
  // Looks whether another rank told of its end; then as check. Answers those that ask.
  void listen();
  // What another rank says it is at; nothing if it has not answered until then, as one that does
  // not listen or is no more. Throws as check. Any thread.
  std::optional<Standing> ask(int rank, const Deadline& until);
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
  void take_notices();  // with the mutex held, as those that follow
  void hand_over(const std::string& text, const std::vector<int>& ranks, int tag);

  const Clock& clock_;
  double deadline_s_;
  const Ledger& ledger_;
  int rank_ = 0, size_ = 1;
  int largest_tag_ = 0;
  int next_group_ = 1;  // the world is 0
  MPI_Comm notices_ = MPI_COMM_NULL;
  std::vector<std::byte> staging_;
  std::atomic<bool> failed_{false}, told_{false};
  std::mutex mutex_;  // of what follows
  std::string reason_;
  std::map<int, Standing> answers_;              // by rank
  std::vector<std::vector<char>> not_sent_yet_;  // MPI may still read it
  ProgressThread progress_thread_;
};

}  // namespace sextant::mpi
