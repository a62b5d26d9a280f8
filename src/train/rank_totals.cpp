#include "train/rank_totals.h"

#include <sys/resource.h>

#include <algorithm>
#include <span>
#include <type_traits>

#include "tensor/gpu.h"
#include "train/run_device.h"
#include "train/trainer.h"
#include "train/world.h"

namespace sextant {

std::vector<RankMemory> predicted_memory(const Preflight& flight) {
  std::vector<RankMemory> ranks;
  for (const MemoryEstimate& memory : flight.memory)
    ranks.push_back({static_cast<int>(ranks.size()), memory.peak, memory.reserved, 0,
                     memory.categories(), memory.host});
  return ranks;
}

StepSends predicted_sends(const Preflight& flight) {
  std::vector<int64_t> ranks(flight.traffic.size());  // by kind
  for (size_t rank = 0; rank < flight.memory.size(); ++rank)
    ++ranks[static_cast<size_t>(flight.kinds.kind_of(static_cast<int>(rank)))];
  StepSends sends{flight.traffic[static_cast<size_t>(flight.kinds.kind_of(0))], {}, {}};
  for (size_t kind = 0; kind < ranks.size(); ++kind)
    sends.all.add(flight.traffic[kind], ranks[kind]);
  return sends;
}

namespace {

// Memory of this process; on a GPU all that is in use there.
int64_t bytes_in_use(const Config& config, int rank) {
  if (config.run.device == RunDevice::Cuda) {
    const gpu::Memory memory = gpu::memory_of(run_device(config, rank).index);
    return memory.total - memory.free;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace

std::vector<RankMemory> measured_memory(Trainer& trainer, const Config& config) {
  Communicator& world = trainer.mesh().world();
  const Arena& arena = trainer.arena();
  RankMemory own{world.rank(),     arena.peak(),
                 arena.reserved(), 0,
                 arena.peaks(),    trainer.offload() ? trainer.offload()->reserved() : 0};
  // Thread ranks share a process, or its GPU: the first rank counts memory outside the arenas.
  const bool has_own_gpu = config.run.transport == Transport::Nccl && gpu::count() > 1;
  const bool is_shared = ranks_share_process(config) && !has_own_gpu;
  int64_t reserved = arena.reserved();
  if (is_shared) world.control().all_reduce(std::span(&reserved, 1), ReduceOp::Sum);
  if (!is_shared || world.rank() == 0)
    own.outside = std::max<int64_t>(0, bytes_in_use(config, world.rank()) - reserved);
  const auto ranks = static_cast<size_t>(world.size());
  std::vector<RankMemory> all(world.rank() == 0 ? ranks : 0);
  const std::vector<int64_t> sizes(ranks, sizeof(RankMemory));
  static_assert(std::is_trivially_copyable_v<RankMemory>);
  world.control().gather(std::as_writable_bytes(std::span(all)), std::as_bytes(std::span(&own, 1)),
                         sizes, 0);
  return all;
}

// Every rank has the same axes: they are those of the mesh.
StepSends measured_sends(const TrafficTable& own, ControlPlane& control) {
  std::vector<int64_t> values;
  for (const AxisTraffic& axis : own.axes())
    for (const Traffic& sent : axis.operations)
      values.insert(values.end(), {sent.calls, sent.elements, sent.bytes});
  control.all_reduce(values, ReduceOp::Sum);
  StepSends sends{own, own, {}};
  auto value = values.begin();
  for (size_t axis = 0; axis < own.axes().size(); ++axis)
    for (int i = 0; i < kOperations; ++i) {
      sends.all.at(axis, static_cast<Operation>(i)) = {value[0], value[1], value[2]};
      value += 3;
    }
  return sends;
}

}  // namespace sextant
