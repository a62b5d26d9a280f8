#pragma once
#include <mpi.h>
#include <signal.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/job_thread.h"
#include "comm/timeout_report.h"
#include "fault/deadline.h"

// An MPI error is Error(Peer): calls are checked before, so what remains is a lost peer or network.
#define SXT_MPI(call) ::sextant::mpi::check_code(call, #call)

namespace sextant::mpi {

void check_code(int code, const char* call);

// Catches SIGTERM while it exists. mpirun sends it when a rank was killed and kills the others a
// second later; a waiting rank uses that second to report for which rank it waits.
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

// MPI in this process: initializes and finalizes it, and tracks whether any rank has failed.
//
// After a failure no thread calls MPI again: unfinished requests may point to freed memory, which
// MPI writes only inside its calls.
class Process {
 public:
  // `ledger`: the source of this rank's status when other ranks query it.
  Process(const Clock& clock, double timeout_s, const Ledger& ledger);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int largest_tag() const { return largest_tag_; }
  const Clock& clock() const { return clock_; }
  double timeout_s() const { return deadline_s_; }
  const Ledger& ledger() const { return ledger_; }
  JobThread& progress_thread() { return progress_thread_; }
  // Used by one collective at a time.
  std::span<std::byte> staging() { return staging_; }

  // Error(Peer) once a rank, this one or another, has failed.
  void check();
  // Receives failure notices of other ranks and answers their status queries; then as check.
  void listen();
  // Queries the status of another rank; nullopt if it does not answer before the deadline, because
  // it does not call listen or is dead. Throws as check. Any thread.
  std::optional<RankStatus> ask(int rank, const Deadline& until);
  // Notifies all other ranks, once, that this one failed (`did` is the verb of the message). From
  // then on check throws. Any thread.
  void fail(const std::string& reason, const char* did = "failed");
  bool has_failed() const { return failed_.load(); }
  // The failure was another rank's, which sent a notice.
  bool was_told() const { return told_.load(); }
  void finalize();

  // A number above those of all groups of this rank. Used by the rank's thread only.
  int next_group() const { return next_group_; }
  void set_next_group(int number) { next_group_ = number; }

 private:
  void take_notices();  // requires mutex_, as does hand_over
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
  std::mutex mutex_;  // guards the members up to progress_thread_
  std::string reason_;
  std::map<int, RankStatus> answers_;            // by rank
  std::vector<std::vector<char>> not_sent_yet_;  // kept: MPI may still read them
  JobThread progress_thread_;
};

}  // namespace sextant::mpi
