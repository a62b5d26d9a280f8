#pragma once
#include <functional>

#include "base/clock.h"
#include "base/span_log.h"
#include "comm/communicator.h"

namespace sextant {

struct WorldOptions {
  double timeout_s = 600;  // timeout of every wait for a peer
  SpanLog* spans = nullptr;
};

// Ranks as threads of one process, over shared memory. Ranks may outnumber cores.
class ThreadWorld {
 public:
  ThreadWorld(int ranks, const Clock& clock, const WorldOptions& options = {});
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  int size() const;
  Communicator& rank(int rank);

  // Runs f(communicator of the rank) on one thread per rank; returns when all are done. A rank that
  // throws aborts the others. Rethrows the first error that is not a consequence of another rank's
  // abort, prefixed by its rank if there are several ranks.
  void run(const std::function<void(Communicator&)>& f);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Creates a ThreadWorld and runs f on it.
void run_ranks(int ranks, const std::function<void(Communicator&)>& f,
               const WorldOptions& options = {});

}  // namespace sextant
