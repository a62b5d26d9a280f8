#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/store/client.h"

namespace sextant::store {

// Numbers of groups, for one rank.
struct GroupNumbers {
  int64_t next = 1;  // above those of all groups of this rank; the world is 0
};

// A group of ranks connected to the store: the control plane, and meetings for a transport that
// moves data on devices. It moves no tensors.
class StoreCommunicator final : public Communicator {
 public:
  StoreCommunicator(Client& client, GroupNumbers& numbers, Ledger& ledger, std::string name,
                    std::vector<int> world_ranks, int rank, int64_t number);

  int world_rank(int rank) const override { return world_ranks_[static_cast<size_t>(rank)]; }
  void abort(const std::string& reason) override { client_.fail(reason, "aborted"); }
  bool is_aborted() override { return client_.has_failed(); }
  void check_alive() override { client_.check(); }

 protected:
  std::unique_ptr<Communicator> make_subgroup(std::span<const int> ranks, int own,
                                              const std::string& name) override;
  void execute(const Call& call) override;
  int64_t start(const Call& call) override;
  void finish(int64_t ticket) override;

 private:
  Request request_of(const Call& call) const;

  Client& client_;
  GroupNumbers& numbers_;
  std::vector<int> world_ranks_;
  int64_t number_;
};

}  // namespace sextant::store
