#pragma once
#include <functional>

#include "base/clock.h"
#include "base/span_log.h"
#include "comm/communicator.h"

namespace sextant {

struct WorldOptions {
  double deadline_s = 600;  // of every wait for a peer
  SpanLog* spans = nullptr;
};

// The ranks of one process, in shared memory. Ranks may outnumber cores.
class ThreadWorld {
 public:
  ThreadWorld(int ranks, const Clock& clock, const WorldOptions& options = {});
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  int size() const;
  Communicator& rank(int rank);

  // f(communicator of the rank) on a thread of its own for every rank; returns when all are done.
  // A rank that throws aborts the others; the first error that is not the echo of another rank's is
  // thrown on, with its rank in front when there are several.
  void run(const std::function<void(Communicator&)>& f);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A world for one function.
void run_ranks(int ranks, const std::function<void(Communicator&)>& f,
               const WorldOptions& options = {});

}  // namespace sextant
