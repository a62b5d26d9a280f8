#include "train/world.h"

#include "comm/run_ranks.h"

namespace sextant {

int local_ranks(const Config& config) {
  return world_size(config.parallel);
}

void run_world(const Config& config, const Clock& clock, Trace* trace,
               const std::function<void(Communicator&)>& f) {
  ThreadWorld world(world_size(config.parallel), clock, {config.fault.deadline, trace});
  world.run(f);
}

}  // namespace sextant
