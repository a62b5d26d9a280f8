#pragma once
#include <memory>

#include "base/clock.h"
#include "comm/communicator.h"

namespace sextant {

// One rank of a world whose other ranks do not exist. Its communicators check, count and trace
// every call but move no data and wait for no peer. Host values stay unchanged.
class PhantomWorld {
 public:
  PhantomWorld(int rank, int ranks, const Clock& clock);
  ~PhantomWorld();
  PhantomWorld(const PhantomWorld&) = delete;
  PhantomWorld& operator=(const PhantomWorld&) = delete;

  Communicator& world();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sextant
