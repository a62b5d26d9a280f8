#include "trace/address_plan.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "trace/address_sweep.h"
#include "trace/slot_pools.h"

namespace sextant {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 60;  // of all lifetimes together: sums cannot overflow

// A tensor freed within this many events counts as a temporary of an operation or two.
constexpr int32_t kShort = 16;
// A tensor freed within this many events counts as a temporary of its layer.
constexpr int32_t kWithinLayer = 64;

constexpr size_t kMostSizeClasses = 24;
constexpr int32_t kMostTurns = 64;  // of an initial order
constexpr int kRounds = 12;         // per initial order; more rounds hardly ever help
constexpr int kPatientRounds = 3;   // rounds that still aim for a tighter plan than required

// Work of a whole search except its first attempt: at least what it is given, and more for many
// lifetimes.
constexpr int64_t kLifetimesPerWork = 80'000;  // that double it
constexpr double kMoreToMove = 2.5;            // as a multiple, for move_largest

void check_lifetimes(std::span<const Lifetime> lifetimes) {
  int64_t total = 0;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& lifetime = lifetimes[i];
    SXT_CHECK(lifetime.bytes >= 0 && lifetime.bytes <= kMostBytes - total, Internal,
              "address plan: lifetime ", i, " of ", lifetime.bytes, " bytes after ", total);
    SXT_CHECK(lifetime.begin < lifetime.end, Internal, "address plan: lifetime ", i, " from ",
              lifetime.begin, " to ", lifetime.end);
    SXT_CHECK(i == 0 || lifetimes[i - 1].begin <= lifetime.begin, Internal,
              "address plan: lifetime ", i, " begins at ", lifetime.begin, ", before the last one");
    total += lifetime.bytes;
  }
}

// The size class of each lifetime, 0 the largest. Sizes of a class are equal, unless that would
// give more than kMostSizeClasses classes: then they differ by as little as possible.
std::vector<int32_t> size_classes(std::span<const Lifetime> lifetimes) {
  std::vector<int64_t> sizes(lifetimes.size());
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = lifetimes[i].bytes;
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::vector<int64_t> largest = sizes;  // of each class
  for (int64_t sixtyfourths = 63; largest.size() > kMostSizeClasses && sixtyfourths > 0;
       sixtyfourths = sixtyfourths > 32 ? sixtyfourths - 4 : sixtyfourths / 2) {
    largest.clear();
    for (const int64_t size : sizes)
      if (largest.empty() || size < largest.back() / 64 * sixtyfourths) largest.push_back(size);
  }
  std::vector<int32_t> classes(lifetimes.size());
  for (size_t i = 0; i < classes.size(); ++i) {
    const auto below =
        std::upper_bound(largest.begin(), largest.end(), lifetimes[i].bytes, std::greater<>());
    classes[i] = static_cast<int32_t>(below - largest.begin()) - 1;
  }
  return classes;
}

// Renumbers the turns from 0 without gaps, in the same order.
void close_gaps(std::vector<int32_t>& turns) {
  std::vector<int32_t> used = turns;
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (int32_t& turn : turns)
    turn = static_cast<int32_t>(std::lower_bound(used.begin(), used.end(), turn) - used.begin());
}

// How to promote tensors that were placed too high to earlier turns.
enum class Promotion {
  Once,     // all of them to the first turn
  Counted,  // by how often each was placed too high; ties keep their order
};

// The largest tensors in order of time, in groups between which many bytes of others begin that
// outlive the next of them. Nothing if two of them are alive at the same time.
std::vector<std::vector<size_t>> turns_of_largest(std::span<const Lifetime> lifetimes) {
  int64_t most = 0;
  for (const Lifetime& lifetime : lifetimes) most = std::max(most, lifetime.bytes);
  std::vector<size_t> largest;
  std::vector<int32_t> begins;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].bytes < most) continue;
    if (!largest.empty() && lifetimes[i].begin < lifetimes[largest.back()].end) return {};
    largest.push_back(i);
    begins.push_back(lifetimes[i].begin);
  }
  std::vector<int64_t> begun(largest.size());  // and alive when each of them begins
  for (const Lifetime& lifetime : lifetimes) {
    const auto next =
        static_cast<size_t>(std::ranges::upper_bound(begins, lifetime.begin) - begins.begin());
    if (next < begins.size() && lifetime.end > begins[next]) begun[next] += lifetime.bytes;
  }
  std::vector<std::vector<size_t>> turns;
  for (size_t i = 0; i < largest.size(); ++i) {
    if (turns.empty() || begun[i] > most / 2) turns.emplace_back();
    turns.back().push_back(largest[i]);
  }
  return turns;
}

// Tries several approaches, cheapest first, and keeps the best plan.
class PlanSearch {
 public:
  // Any plan up to `enough` bytes is good.
  PlanSearch(std::span<const Lifetime> lifetimes, int64_t work, int64_t enough = 0)
      : lifetimes_(lifetimes),
        enough_(enough),
        sweep_(lifetimes),
        work_(work),
        work_limit_(work + work / kLifetimesPerWork * static_cast<int64_t>(lifetimes.size())) {
    best_.high_water = AddressSweep::kUnfinished;
  }

  // `pins`: lifetimes with a given offset.
  AddressPlan run(std::span<const std::pair<size_t, int64_t>> pins = {});

 private:
  int64_t within(int64_t percent) const {
    return std::max(enough_, sweep_.peak() + sweep_.peak() / 100 * percent);
  }
  bool found(int64_t percent) const { return best_.high_water <= within(percent); }

  bool attempt(const Approach& approach, int64_t work_limit);
  void improve(const std::vector<int32_t>& turns, Promotion promotion);
  void move_largest();
  std::vector<Fit> fits_from_both_ends() const;
  std::vector<int32_t> turns_by_length(int32_t short_length) const;
  std::vector<int32_t> turns_by_duration() const;

  std::span<const Lifetime> lifetimes_;
  int64_t enough_;
  AddressSweep sweep_;
  int64_t work_, work_limit_;
  AddressPlan best_;
};

// Temporaries placed between long-lived tensors cause fragmentation. Kept apart from them, the
// memory of most steps grows and shrinks without holes. Temporaries as large as the long-lived
// tensors should fill their holes instead: tightest fit. A pipeline has a moving window of
// in-flight micro-batches that are freed in pieces: there large tensors are placed first, and each
// size class reuses its own addresses.
AddressPlan PlanSearch::run(std::span<const std::pair<size_t, int64_t>> pins) {
  sweep_.pin(pins);
  const std::vector<int32_t> at_once(lifetimes_.size(), 0);
  const std::vector<Fit> tightest(lifetimes_.size(), Fit::Tightest);
  attempt({at_once, fits_from_both_ends()}, AddressSweep::kUnfinished);
  if (!found(1)) attempt({at_once, tightest}, work_limit_);
  if (!found(2)) improve(size_classes(lifetimes_), Promotion::Once);
  if (!found(3)) improve(at_once, Promotion::Once);
  if (!found(3)) improve(turns_by_length(kWithinLayer), Promotion::Counted);
  if (!found(3)) improve(turns_by_duration(), Promotion::Once);
  if (!found(3) && pins.empty()) move_largest();
  return std::move(best_);
}

// False when the work limit was reached.
bool PlanSearch::attempt(const Approach& approach, int64_t work_limit) {
  const int64_t ceiling =
      std::max(enough_, sweep_.peak() + sweep_.peak() / 200);  // some slack to avoid holes
  const int64_t high_water = sweep_.place(approach, ceiling, work_limit);
  if (high_water == AddressSweep::kUnfinished) return false;
  if (high_water < best_.high_water) best_ = {sweep_.offsets(), high_water};
  return true;
}

// Starts with the given turns; after each round, promotes the tensors that were placed too high.
void PlanSearch::improve(const std::vector<int32_t>& turns, Promotion promotion) {
  Approach approach{turns, std::vector<Fit>(lifetimes_.size(), Fit::Lowest)};
  std::vector<int32_t> promoted(lifetimes_.size(), 0);
  for (int round = 0; round < kRounds; ++round) {
    if (!attempt(approach, work_limit_) || found(round < kPatientRounds ? 2 : 3)) return;
    for (size_t i = 0; i < lifetimes_.size(); ++i) {
      if (sweep_.offsets()[i] + lifetimes_[i].bytes <= within(1)) continue;
      promoted[i] = promotion == Promotion::Once ? 1 : promoted[i] + 1;
    }
    for (size_t i = 0; i < lifetimes_.size(); ++i) {
      const bool first = promotion == Promotion::Once && promoted[i] > 0;
      approach.turns[i] = (kRounds - promoted[i]) * kMostTurns + (first ? 0 : turns[i]);
    }
    close_gaps(approach.turns);
  }
}

// Logits of all micro-batches at one place would keep all tensors away that outlive any of them:
// most activations of a pipeline. So the logits move on: they take several places in turn, and new
// activations follow them to the place that they left.
void PlanSearch::move_largest() {
  const std::vector<std::vector<size_t>> turns = turns_of_largest(lifetimes_);
  work_limit_ = sweep_.work() + static_cast<int64_t>(kMoreToMove * static_cast<double>(work_));
  for (const int64_t places : {4, 3}) {
    if (turns.size() <= static_cast<size_t>(places)) continue;
    std::vector<std::pair<size_t, int64_t>> pins;
    const int64_t last = within(1) - lifetimes_[turns[0][0]].bytes;
    for (size_t turn = 0; turn < turns.size(); ++turn)
      for (const size_t i : turns[turn])
        pins.emplace_back(
            i, sweep_.aligned(last / (places - 1) * (static_cast<int64_t>(turn) % places)));
    sweep_.pin(pins);
    const std::vector<int32_t> at_once(lifetimes_.size(), 0);
    attempt({at_once, std::vector<Fit>(lifetimes_.size(), Fit::Tightest)}, work_limit_);
    if (!found(3)) improve(at_once, Promotion::Once);
    if (found(3)) return;
  }
}

std::vector<Fit> PlanSearch::fits_from_both_ends() const {
  std::vector<Fit> fits(lifetimes_.size());
  for (size_t i = 0; i < fits.size(); ++i)
    fits[i] = sweep_.duration(i) <= kShort ? Fit::Highest : Fit::Tightest;
  return fits;
}

std::vector<int32_t> PlanSearch::turns_by_length(int32_t short_length) const {
  std::vector<int32_t> turns(lifetimes_.size());
  for (size_t i = 0; i < turns.size(); ++i) turns[i] = sweep_.duration(i) < short_length ? 1 : 0;
  return turns;
}

// Longest lifetimes first, grouped by factors of four.
std::vector<int32_t> PlanSearch::turns_by_duration() const {
  std::vector<int32_t> turns(lifetimes_.size());
  int32_t most = 0;
  for (size_t i = 0; i < turns.size(); ++i) {
    const auto length = static_cast<uint32_t>(sweep_.duration(i));
    turns[i] = (static_cast<int32_t>(std::bit_width(length)) + 1) / 2;
    most = std::max(most, turns[i]);
  }
  for (int32_t& turn : turns) turn = most - turn;
  return turns;
}

// Some of a program's tensors, with those whose offsets are given.
struct Part {
  std::vector<std::pair<size_t, Lifetime>> tensors;  // index in the program
  std::vector<std::optional<int64_t>> offsets;

  void add(size_t tensor, const Lifetime& lifetime, std::optional<int64_t> offset) {
    tensors.emplace_back(tensor, lifetime);
    offsets.push_back(offset);
  }

  // Sets the offsets of all tensors in `out` and raises its high-water mark if need be.
  void plan(AddressPlan& out, int64_t work) const {
    std::vector<size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return tensors[i].second.begin; });
    std::vector<Lifetime> sorted;
    std::vector<std::pair<size_t, int64_t>> pins;
    for (const size_t i : order) {
      if (offsets[i]) pins.emplace_back(sorted.size(), *offsets[i]);
      sorted.push_back(tensors[i].second);
    }
    const AddressPlan found = PlanSearch(sorted, work, out.high_water).run(pins);
    for (size_t i = 0; i < order.size(); ++i)
      out.offsets[tensors[order[i]].first] = found.offsets[i];
    out.high_water = std::max(out.high_water, found.high_water);
  }
};

}  // namespace

int64_t peak_bytes(std::span<const Lifetime> lifetimes) {
  return AddressSweep(lifetimes).peak();
}

AddressPlan plan_addresses(std::span<const Lifetime> lifetimes, int64_t work) {
  check_lifetimes(lifetimes);
  return PlanSearch(lifetimes, work).run();
}

// Tensors of recorded cycles have the offsets of their pools too. The others are planned around
// them, those before the cycles backwards in time: then a search meets the tensors that are alive
// in both first, and the rest only frees memory.
AddressPlan plan_addresses(std::span<const Lifetime> lifetimes, const Cycle& cycle,
                           const SlotPools& pools, int64_t work) {
  check_lifetimes(lifetimes);
  const auto end = static_cast<size_t>(cycle.end), per_cycle = static_cast<size_t>(cycle.tensors);
  const size_t first = cycle.begin_of(cycle.reach);
  AddressPlan plan{std::vector<int64_t>(lifetimes.size()), pools.bytes()};
  Part before, after;
  for (size_t i = 0; i < end; ++i) {
    const Lifetime& lifetime = lifetimes[i];
    const bool is_alive = lifetime.end >= cycle.end_event;
    const int32_t freed = std::min(lifetime.end, cycle.end_event);
    std::optional<int64_t> offset;
    if (i >= first) {
      const auto back = static_cast<int64_t>((end - 1 - i) / per_cycle) + 1;
      offset = pools.offset((i - first) % per_cycle, -back);
      if (lifetime.end > cycle.end_event)
        after.add(i, {lifetime.bytes, cycle.end_event, lifetime.end},
                  pools.offset((i - first) % per_cycle, cycle.left_out - back));
    } else if (is_alive) {  // all the time
      offset = plan.high_water;
      plan.high_water += lifetime.bytes;
      if (lifetime.end > cycle.end_event)
        after.add(i, {lifetime.bytes, cycle.end_event, lifetime.end}, offset);
    }
    before.add(i, {lifetime.bytes, -freed, -lifetime.begin}, offset);
  }
  for (size_t i = end; i < lifetimes.size(); ++i) after.add(i, lifetimes[i], {});
  after.plan(plan, work);
  before.plan(plan, work);  // its offsets are the ones of tensors that are in both
  return plan;
}

bool is_sound(std::span<const Lifetime> lifetimes, const AddressPlan& plan) {
  if (plan.offsets.size() != lifetimes.size()) return false;
  std::vector<std::pair<int32_t, size_t>> ends;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    if (plan.offsets[i] < 0 || plan.offsets[i] > plan.high_water - lifetimes[i].bytes) return false;
    if (lifetimes[i].bytes > 0) ends.emplace_back(lifetimes[i].end, i);
  }
  std::sort(ends.begin(), ends.end());
  std::map<int64_t, int64_t> alive;  // begin and end address
  auto ending = ends.begin();
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    for (; ending != ends.end() && ending->first <= lifetimes[i].begin; ++ending)
      alive.erase(plan.offsets[ending->second]);
    if (lifetimes[i].bytes == 0) continue;
    const int64_t begin = plan.offsets[i], end = begin + lifetimes[i].bytes;
    const auto next = alive.lower_bound(begin);
    if (next != alive.end() && next->first < end) return false;
    if (next != alive.begin() && std::prev(next)->second > begin) return false;
    alive.emplace(begin, end);
  }
  return true;
}

}  // namespace sextant
