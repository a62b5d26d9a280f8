#include "train/world.h"

#include <cstdlib>

#include "base/error.h"
#include "comm/launch.h"
#include "comm/mpi_world.h"
#include "comm/run_ranks.h"
#include "comm/store_world.h"
#include "tensor/gpu.h"
#include "train/run_device.h"

namespace sextant {

int local_ranks(const Config& config) {
  const int ranks = world_size(config.parallel);
  if (config.run.transport == Transport::Threads) return ranks;
  const Launch launch = find_launch(process_environment());
  return launch.kind == LaunchKind::None ? ranks : launch.local_size;
}

bool ranks_share_process(const Config& config) {
  if (config.run.transport != Transport::Nccl) return config.run.transport == Transport::Threads;
  return find_launch(process_environment()).kind == LaunchKind::None;
}

bool may_share_gpus() {
  return process_environment()(kShareVariable).value_or("0") == "1";
}

// NCCL's kernels wait on the GPU for those of the other ranks. Where ranks share it, there must be
// room for all of them (NCCL_MAX_CTAS), and a kernel that is loaded when it is first used would
// wait for those that wait for it (CUDA_MODULE_LOADING). MPS has few connections for all processes
// together.
void prepare_nccl(const Config& config) {
  if (config.run.transport != Transport::Nccl) return;
  if (may_share_gpus()) {
    ::setenv("NCCL_NVLS_ENABLE", "0", 0);
    ::setenv("NCCL_MAX_CTAS", "4", 0);
    ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", ranks_share_process(config) ? "32" : "4", 0);
  }
  const std::string why = NcclWorld::why_unusable();
  SXT_CHECK(why.empty(), Config, "run.transport = nccl: ", why,
            "; run.transport = threads runs all ranks on one GPU");
  const int here = local_ranks(config), gpus = gpu::count();
  SXT_CHECK(!ranks_share_process(config) || gpus == 0 || here <= gpus || may_share_gpus(), Config,
            "run.transport = nccl: ", here, " ranks and ", gpus, gpus == 1 ? " GPU" : " GPUs",
            ": each rank needs one; NCCL 2.30 lets ranks share a GPU when ", kShareVariable,
            "=1 is set, and run.transport = threads always");
}

NcclOptions nccl_options(const Config& config, int rank) {
  NcclOptions options;
  options.gpu = run_device(config, rank).index;
  options.timeout_s = config.fault.deadline;
  if (config.train.reductions == Reductions::Fast) options.sums = SumOrder::Library;
  if (may_share_gpus()) options.sharing = GpuSharing::Allowed;
  return options;
}

namespace {

void run_nccl(const Config& config, const Clock& clock, const WorldOptions& options,
              const std::function<void(Communicator&)>& f) {
  const auto on_rank = [&](Communicator& host) {
    NcclWorld world(host, nccl_options(config, host.rank()));
    f(world.world());
  };
  const int ranks = world_size(config.parallel);
  const Launch launch = find_launch(process_environment());
  check_nccl_launch(launch, ranks);
  if (launch.kind == LaunchKind::None)
    ThreadWorld(ranks, clock, options).run(on_rank);
  else if (launch.kind == LaunchKind::Torchrun)
    StoreWorld(launch, process_environment(), clock, options).run(on_rank);
  else
    MpiWorld(launch, clock, options).run(on_rank);
}

}  // namespace

void run_world(const Config& config, const Clock& clock, SpanLog* spans,
               const std::function<void(Communicator&)>& f) {
  const int ranks = world_size(config.parallel);
  const WorldOptions options{config.fault.deadline, spans};
  if (config.run.transport == Transport::Threads) {
    ThreadWorld(ranks, clock, options).run(f);
    return;
  }
  if (config.run.transport == Transport::Nccl) return run_nccl(config, clock, options, f);
  const Launch launch = find_launch(process_environment());
  check_mpi_launch(launch, ranks, {"sextant"});
  MpiWorld(launch, clock, options).run(f);
}

}  // namespace sextant
