#include "comm/threads/group.h"

#include <utility>

namespace sextant::threads {

Group::Group(const GroupKey& key, int64_t id, std::string name, std::vector<int> world_ranks)
    : key(key),
      id(id),
      name(std::move(name)),
      world_ranks(std::move(world_ranks)),
      members_left(size()),
      call_slots(static_cast<size_t>(size() * kLanes)),
      mailboxes(static_cast<size_t>(size() * size())),
      reads(static_cast<size_t>(size() * kLanes * size())) {}

GpuLane::GpuLane(int index) : queue(index) {
  for (std::unique_ptr<gpu::Event>& event : done) event = std::make_unique<gpu::Event>(index);
}

GpuLane& Group::gpu_lane(int lane, int index) {
  const std::lock_guard lock(gpu_mutex);
  std::unique_ptr<GpuLane>& own = gpu_lanes[static_cast<size_t>(lane)];
  if (!own) own = std::make_unique<GpuLane>(index);
  return *own;
}

}  // namespace sextant::threads
