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

}  // namespace sextant::threads
