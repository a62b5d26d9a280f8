#pragma once
#include <exception>
#include <memory>
#include <string>
#include <unordered_map>

#include "comm/communicator.h"
#include "comm/mpi/group.h"

namespace sextant::mpi {

// A group of processes. Collectives of all groups of a process run one at a time in program order:
// When::Later on the progress thread, When::Now on the rank's thread once the progress thread is
// idle. Messages are handed to MPI immediately and checked when they are waited for.
class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(Process& process, Ledger& ledger, std::string name, std::vector<int> world_ranks,
                  int rank, int number);
  ~MpiCommunicator() override;

  int world_rank(int rank) const override { return group_.world(rank); }
  void abort(const std::string& reason) override;
  bool is_aborted() override;
  bool is_ending() override { return EndWatch::has_come(); }
  void check_alive() override;

 protected:
  std::unique_ptr<Communicator> make_subgroup(std::span<const int> ranks, int own,
                                              const std::string& name) override;
  void execute(const Call& call) override;
  int64_t start(const Call& call) override;
  void finish(int64_t ticket) override;

 private:
  // A message or collective that was started and not yet waited for.
  struct Job {
    explicit Job(Process& process) : headers(process), data(process) {}
    Call call;
    int64_t place = 0;  // collective: its job number in the progress thread
    std::exception_ptr error;
    // Message: the requests refer to the headers, so they are destroyed first.
    Header own, other;
    Requests headers, data;
  };

  void post_message(Job& job);
  void finish_message(Job& job);
  void wait_for_message(Job& job);

  Process& process_;
  Group group_;
  int64_t last_ticket_ = 0;
  std::unordered_map<int64_t, std::unique_ptr<Job>> jobs_;
};

}  // namespace sextant::mpi
