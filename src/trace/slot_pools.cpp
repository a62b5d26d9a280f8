#include "trace/slot_pools.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace sextant {
namespace {

// Number of tensors in a pool at each event of a cycle.
class Occupancy {
 public:
  explicit Occupancy(int32_t events) : events_(events) {
    while (leaves_ < events_) leaves_ *= 2;
    nodes_.resize(2 * static_cast<size_t>(leaves_));
  }

  int32_t most() const { return nodes_[1].most; }
  // The most there would be with one more tensor alive for `duration` events from `begin`.
  int32_t most_with(int32_t begin, int32_t duration) const {
    const int32_t whole = duration / events_;
    int32_t most = this->most() + whole;
    for_parts(begin, duration % events_, [&](int32_t from, int32_t to) {
      most = std::max(most, most_in(from, to) + whole + 1);
    });
    return most;
  }

  void add(int32_t begin, int32_t duration) {
    add(1, 0, leaves_, 0, events_, duration / events_);
    for_parts(begin, duration % events_,
              [&](int32_t from, int32_t to) { add(1, 0, leaves_, from, to, 1); });
  }

 private:
  // A segment tree: the count of an event is the sum of `all` on the way to its leaf.
  struct Node {
    int32_t most = 0;  // in its events, without `all` of the nodes above
    int32_t all = 0;   // added to each of its events
  };

  // Events go around.
  template <class F>
  void for_parts(int32_t begin, int32_t size, F&& f) const {
    if (size == 0) return;
    const int32_t end = begin + size;
    f(begin, std::min(end, events_));
    if (end > events_) f(0, end - events_);
  }

  // `node` has the events first ... last - 1.
  void add(size_t node, int32_t first, int32_t last, int32_t from, int32_t to, int32_t count) {
    if (to <= first || last <= from) return;
    Node& own = nodes_[node];
    if (from <= first && last <= to) {
      own.most += count;
      own.all += count;
      return;
    }
    const int32_t middle = (first + last) / 2;
    add(2 * node, first, middle, from, to, count);
    add(2 * node + 1, middle, last, from, to, count);
    own.most = own.all + std::max(nodes_[2 * node].most, nodes_[2 * node + 1].most);
  }

  int32_t most_in(int32_t from, int32_t to) const { return most_in(1, 0, leaves_, from, to); }
  int32_t most_in(size_t node, int32_t first, int32_t last, int32_t from, int32_t to) const {
    if (to <= first || last <= from) return 0;
    const Node& own = nodes_[node];
    if (from <= first && last <= to) return own.most;
    const int32_t middle = (first + last) / 2;
    return own.all + std::max(most_in(2 * node, first, middle, from, to),
                              most_in(2 * node + 1, middle, last, from, to));
  }

  int32_t events_, leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace

SlotPools::SlotPools(std::span<const Lifetime> recorded, const Cycle& cycle, int64_t work)
    : SlotPools(recorded, cycle, Temporaries::InFreeSlots, work) {
  SlotPools other(recorded, cycle, Temporaries::Apart, work);
  if (other.bytes_ < bytes_) *this = std::move(other);
}

SlotPools::SlotPools(std::span<const Lifetime> recorded, const Cycle& cycle,
                     Temporaries temporaries, int64_t work)
    : parts_(static_cast<size_t>(cycle.tensors)) {
  const size_t first = cycle.begin_of(cycle.depth);
  const int32_t event = cycle.end_event - cycle.depth * cycle.events;
  for (size_t place = 0; place < parts_.size(); ++place) {
    begins_.push_back(recorded[first + place].begin - event);
    durations_.push_back(cycle.duration(recorded, place));
  }
  pack(recorded, cycle, fill_pools(recorded, cycle, temporaries), work);
  for (size_t pool = 0; pool < pools_.size(); ++pool)
    follow_slots(cycle, static_cast<int32_t>(pool));
}

// Tensors that outlive their cycle first, large before small. A tensor goes to the pool with the
// smallest slots in which one is free for all of its life; if there is none, the pool of its own
// size grows. Returns the temporaries for which there is none.
std::vector<size_t> SlotPools::fill_pools(std::span<const Lifetime> recorded, const Cycle& cycle,
                                          Temporaries temporaries) {
  const auto is_temporary = [&](size_t place) {
    return begins_[place] + durations_[place] < cycle.events;
  };
  const auto bytes_of = [&](size_t place) {
    return recorded[cycle.begin_of(cycle.depth) + place].bytes;
  };
  std::vector<size_t> order(parts_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t place) {
    return std::tuple(!is_temporary(place), bytes_of(place), durations_[place]);
  });
  std::vector<size_t> left;
  std::vector<Occupancy> occupancy;
  for (const size_t place : order) {
    const bool may_grow = !is_temporary(place);
    if (!may_grow && temporaries == Temporaries::Apart) {
      left.push_back(place);
      continue;
    }
    if (may_grow && (pools_.empty() || pools_.back().slot_bytes != bytes_of(place))) {
      pools_.push_back({bytes_of(place), 0, 0, {}});
      occupancy.emplace_back(cycle.events);
    }
    size_t pool = pools_.size() - 1;  // if there is one
    const auto fits = [&](size_t other) {
      return pools_[other].slot_bytes >= bytes_of(place) &&
             occupancy[other].most_with(begins_[place], durations_[place]) <= pools_[other].slots;
    };
    size_t larger = pools_.size();
    while (larger > 0 && !fits(larger - 1)) --larger;
    if (larger == 0 && !may_grow) {
      left.push_back(place);
      continue;
    }
    if (larger > 0) pool = larger - 1;
    occupancy[pool].add(begins_[place], durations_[place]);
    if (larger == 0) pools_[pool].slots = occupancy[pool].most();
    pools_[pool].tensors.push_back(place);
    parts_[place].pool = static_cast<int32_t>(pool);
  }
  for (Pool& pool : pools_) {
    pool.offset = bytes_;
    bytes_ += pool.slots * pool.slot_bytes;
  }
  return left;
}

// Behind the pools, at the same offsets in every cycle.
void SlotPools::pack(std::span<const Lifetime> recorded, const Cycle& cycle,
                     std::vector<size_t> places, int64_t work) {
  std::ranges::sort(places);
  std::vector<Lifetime> lifetimes;
  for (const size_t place : places)
    lifetimes.push_back({recorded[cycle.begin_of(cycle.depth) + place].bytes, begins_[place],
                         begins_[place] + durations_[place]});
  const AddressPlan plan = plan_addresses(lifetimes, work);
  for (size_t i = 0; i < places.size(); ++i)
    parts_[places[i]] = {kPacked, 0, 1, 0, bytes_ + plan.offsets[i]};
  bytes_ += plan.high_water;
}

// Runs one cycle. Parts at its begin: first the tensors alive from earlier cycles, then the stack
// of free slots. `moves` takes the part of a slot at the begin of the cycle to that at its end.
void SlotPools::follow_slots(const Cycle& cycle, int32_t pool) {
  const Pool& own = pools_[static_cast<size_t>(pool)];
  const auto ages = [&](size_t place) {
    return (begins_[place] + durations_[place]) / cycle.events;  // alive from that many cycles
  };
  struct Event {
    int32_t at;
    bool is_free;
    size_t place;
    size_t index;  // in own.tensors
  };
  std::vector<Event> events;
  std::vector<int32_t> first_part;  // of the youngest tensor, by index
  int32_t parts = 0;
  for (size_t i = 0; i < own.tensors.size(); ++i) {
    const size_t place = own.tensors[i];
    events.push_back({begins_[place], false, place, i});
    events.push_back({(begins_[place] + durations_[place]) % cycle.events, true, place, i});
    first_part.push_back(parts);
    parts += ages(place);
  }
  SXT_CHECK(parts <= own.slots, Internal, "a pool of ", own.slots, " slots for ", parts,
            " tensors");
  std::ranges::sort(events, {}, &Event::at);
  // Slots are named by their part at the begin of the cycle.
  std::vector<std::vector<int32_t>> alive(own.tensors.size());  // oldest last
  for (size_t i = 0; i < own.tensors.size(); ++i)
    for (int32_t age = 0; age < ages(own.tensors[i]); ++age)
      alive[i].push_back(first_part[i] + age);
  std::vector<int32_t> free;
  for (int32_t part = own.slots - 1; part >= parts; --part) free.push_back(part);
  std::vector<int32_t> taken(own.tensors.size());
  for (const Event& event : events) {
    if (event.is_free) {
      free.push_back(alive[event.index].back());
      alive[event.index].pop_back();
    } else {
      SXT_CHECK(!free.empty(), Internal, "a pool of ", own.slots, " slots has no free one");
      taken[event.index] = free.back();
      free.pop_back();
      alive[event.index].insert(alive[event.index].begin(), taken[event.index]);
    }
  }
  std::vector<int32_t> moves(static_cast<size_t>(own.slots));
  for (size_t i = 0; i < own.tensors.size(); ++i)
    for (size_t age = 0; age < alive[i].size(); ++age)
      moves[static_cast<size_t>(alive[i][age])] = first_part[i] + static_cast<int32_t>(age);
  for (size_t i = 0; i < free.size(); ++i)
    moves[static_cast<size_t>(free[i])] = own.slots - 1 - static_cast<int32_t>(i);
  // The orbits of the permutation.
  std::vector<Part> part_of(static_cast<size_t>(own.slots));
  std::vector<bool> is_seen(static_cast<size_t>(own.slots));
  for (int32_t start = 0; start < own.slots; ++start) {
    if (is_seen[static_cast<size_t>(start)]) continue;
    const auto orbit = static_cast<int32_t>(orbits_.size());
    int32_t length = 0;
    for (int32_t at = start; !is_seen[static_cast<size_t>(at)];
         at = moves[static_cast<size_t>(at)]) {
      is_seen[static_cast<size_t>(at)] = true;
      part_of[static_cast<size_t>(at)] = {pool, orbit, 0, length++};
      orbits_.push_back(at);
    }
    for (int32_t i = orbit; i < orbit + length; ++i)
      part_of[static_cast<size_t>(orbits_[static_cast<size_t>(i)])].length = length;
  }
  for (size_t i = 0; i < own.tensors.size(); ++i)
    parts_[own.tensors[i]] = part_of[static_cast<size_t>(taken[i])];
}

int64_t SlotPools::offset(size_t place, int64_t cycle) const {
  const Part& part = parts_[place];
  if (part.pool == kPacked) return part.offset;
  const Pool& pool = pools_[static_cast<size_t>(part.pool)];
  int64_t at = (part.position - cycle) % part.length;
  if (at < 0) at += part.length;
  return pool.offset + orbits_[static_cast<size_t>(part.orbit + at)] * pool.slot_bytes;
}

}  // namespace sextant
