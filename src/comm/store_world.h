#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/communicator.h"
#include "comm/launch.h"
#include "comm/run_ranks.h"

namespace sextant {

// One process's handle to all ranks of a run that torchrun started, or another launcher that sets
// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Rank 0 keeps a
// store, a thread that listens on TCP, to which all ranks connect; every wait has a deadline.
//
// Its communicators are a control plane (host values, meetings): they move no tensors. Interface as
// MpiWorld's.
class StoreWorld {
 public:
  // Error(Config) for a host or port that cannot be used, Error(Peer) when a rank does not come.
  StoreWorld(const Launch& launch, const Environment& environment, const Clock& clock,
             const WorldOptions& options = {});
  ~StoreWorld();
  StoreWorld(const StoreWorld&) = delete;
  StoreWorld& operator=(const StoreWorld&) = delete;

  Communicator& world();
  void run(const std::function<void(Communicator&)>& f);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sextant
