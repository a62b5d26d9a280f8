#include "train/world.h"

#include "comm/launch.h"
#include "comm/mpi_world.h"
#include "comm/run_ranks.h"

namespace sextant {

int local_ranks(const Config& config) {
  const int ranks = world_size(config.parallel);
  if (config.run.transport == Transport::Threads) return ranks;
  const Launch launch = find_launch(process_environment());
  return launch.kind == LaunchKind::None ? ranks : launch.local_size;
}

void run_world(const Config& config, const Clock& clock, SpanLog* spans,
               const std::function<void(Communicator&)>& f) {
  const int ranks = world_size(config.parallel);
  const WorldOptions options{config.fault.deadline, spans};
  if (config.run.transport == Transport::Threads) {
    ThreadWorld(ranks, clock, options).run(f);
    return;
  }
  const Launch launch = find_launch(process_environment());
  check_mpi_launch(launch, ranks, {"sextant"});
  MpiWorld(launch, clock, options).run(f);
}

}  // namespace sextant
