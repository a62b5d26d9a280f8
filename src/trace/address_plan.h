#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// A tensor of a program: `bytes` (rounded up to the alignment), alive in events [begin, end), with
// begin < end.
struct Lifetime {
  int64_t bytes = 0;
  int32_t begin = 0, end = 0;
};

struct AddressPlan {
  std::vector<int64_t> offsets;  // of each lifetime
  int64_t high_water = 0;        // end of the highest one
};

// The most bytes alive at one time: a lower bound of any plan.
int64_t peak_bytes(std::span<const Lifetime> lifetimes);

// How long to search for a small plan, in steps of 1 to 2 ns. A first plan is made in any case.
inline constexpr int64_t kSearchWork = 120'000'000;

// Offsets such that lifetimes which overlap in time do not overlap in memory. `lifetimes` must be
// sorted by begin. Offsets are multiples of the largest power of two that divides all sizes. The
// same input gives the same plan on every machine.
AddressPlan plan_addresses(std::span<const Lifetime> lifetimes, int64_t work = kSearchWork);
// Whether no two lifetimes overlap in both time and address and all are within [0, high_water).
bool is_sound(std::span<const Lifetime> lifetimes, const AddressPlan& plan);

}  // namespace sextant
