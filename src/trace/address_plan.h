#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// A tensor of a program: bytes (already rounded up to the alignment), alive from event `begin` up
// to, not including, event `end` (begin < end).
struct Lifetime {
  int64_t bytes = 0;
  int32_t begin = 0, end = 0;
};

struct AddressPlan {
  std::vector<int64_t> offsets;  // of each lifetime
  int64_t high_water = 0;        // first byte behind all of them
};

// The most bytes alive at one time: no plan can have less.
int64_t peak_bytes(std::span<const Lifetime> lifetimes);

// An address for each lifetime, so that no two that live at the same time overlap. `lifetimes` are
// sorted by begin. Offsets are multiples of any power of two that all sizes are multiples of. The
// same input gives the same plan on every machine.
AddressPlan plan_addresses(std::span<const Lifetime> lifetimes);

// No two lifetimes overlap in time and address, and all lie within [0, high_water).
bool is_sound(std::span<const Lifetime> lifetimes, const AddressPlan& plan);

}  // namespace sextant
