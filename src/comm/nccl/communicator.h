#pragma once
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/connection.h"
#include "comm/nccl/rank.h"

namespace sextant::nccl {

// A group of ranks with a GPU each. Before a collective is issued, its ranks agree on it on the
// host. Collectives of a rank are issued one at a time in program order: When::Later on the
// progress thread, When::Now on the rank's thread once that one is idle. They run in the queue of
// their group, behind `ready` of the rank's stream; the stream goes on behind their end.
//
// Calls of one communicator run one after another on the GPU, so messages have one of their own for
// each ordered pair of ranks: otherwise two ranks that send to each other would wait for each
// other. The first message makes it. A thread per pair issues them in order.
class NcclCommunicator final : public Communicator {
 public:
  // `connection`: null for a group of one rank.
  NcclCommunicator(Rank& rank, Communicator& host, std::unique_ptr<Communicator> own_host,
                   Connection* connection);
  ~NcclCommunicator() override;

  int world_rank(int rank) const override { return host_.world_rank(rank); }
  ControlPlane& control() override { return host_.control(); }
  void abort(const std::string& reason) override { host_.abort(reason); }
  bool is_aborted() override { return rank_.has_failed(); }
  void check_alive() override { rank_.check(); }
  // Where ranks have a GPU each: those that share one wait on the host for calls to end.
  bool can_record() const override { return size() == 1 || !rank_.waits_on_host(); }
  void record(gpu::Graph& graph, Stream& stream, FunctionRef<void()> f) override;
  void launch(gpu::Graph& graph, Stream& stream) override;

 protected:
  std::unique_ptr<Communicator> make_subgroup(std::span<const int> ranks, int own,
                                              const std::string& name) override;
  void execute(const Call& call) override;
  int64_t start(const Call& call) override;
  void finish(int64_t ticket) override;
  void start_after(int64_t ticket) override;

 private:
  // Messages to or from one rank.
  struct Channel {
    Connection* connection = nullptr;  // used by its thread only
    JobThread thread;
  };

  std::unique_ptr<Job> prepare(const Call& call);
  void issue(Job& job);  // on the thread of the job
  void issue_message(Job& job);
  void issue_to(Connection& connection, Job& job, const std::function<void()>& f);
  void push(Job& job);
  void complete(Job& job);
  Channel& channel_of(const Call& call);

  Rank& rank_;
  std::unique_ptr<Communicator> own_host_;  // of a subgroup
  Communicator& host_;                      // control plane
  std::unique_ptr<Communicator> meetings_;  // the same ranks: agreement on calls
  Connection* connection_;
  Mark* follows_ = nullptr;                         // the next started collective runs after it
  std::vector<std::unique_ptr<Channel>> channels_;  // to each rank, then from each rank
};

}  // namespace sextant::nccl
