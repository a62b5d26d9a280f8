#pragma once
#include <memory>

#include "base/clock.h"
#include "comm/communicator.h"

namespace sextant {

// One rank of a world that is not there. Its communicators check and book every call as others do;
// nothing moves, and nobody is waited for. Values of the host stay as they are.
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
