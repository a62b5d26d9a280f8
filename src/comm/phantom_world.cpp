#include "comm/phantom_world.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sextant {
namespace {

class PhantomCommunicator final : public Communicator {
 public:
  PhantomCommunicator(Ledger& ledger, std::string name, std::vector<int> world_ranks, int rank)
      : Communicator(rank, static_cast<int>(world_ranks.size()), std::move(name), ledger),
        world_ranks_(std::move(world_ranks)) {}

  int world_rank(int rank) const override { return world_ranks_[static_cast<size_t>(rank)]; }

  void abort(const std::string&) override {}

 protected:
  std::unique_ptr<Communicator> make_subgroup(std::span<const int> ranks, int own,
                                              const std::string& name) override {
    std::vector<int> world_ranks;
    for (const int peer : ranks) world_ranks.push_back(world_rank(peer));
    return std::make_unique<PhantomCommunicator>(ledger(), name, std::move(world_ranks), own);
  }
  bool announce(const Call&) override { return true; }
  void execute(const Call&) override {}
  int64_t start(const Call&) override { return 0; }
  void finish(int64_t) override {}

 private:
  std::vector<int> world_ranks_;
};

}  // namespace

struct PhantomWorld::State {
  State(int rank, int ranks, const Clock& clock) : ledger(clock) {
    SXT_CHECK(rank >= 0 && rank < ranks, Usage, "rank ", rank, " of a world of ", ranks);
    ledger.rank = rank;
    std::vector<int> all(static_cast<size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    world = std::make_unique<PhantomCommunicator>(ledger, "world", std::move(all), rank);
  }

  Ledger ledger;
  std::unique_ptr<PhantomCommunicator> world;
};

PhantomWorld::PhantomWorld(int rank, int ranks, const Clock& clock)
    : state_(std::make_unique<State>(rank, ranks, clock)) {}

PhantomWorld::~PhantomWorld() = default;

Communicator& PhantomWorld::world() {
  return *state_->world;
}

}  // namespace sextant
