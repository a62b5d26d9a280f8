#pragma once
// Copies of columns from one place to another, in units of as many bytes as all sizes and addresses
// share, 16 at most.
#include <numeric>

#include "ops/cuda/kernel.h"

namespace sextant::cuda {

// The largest power of two up to 16 that divides all of them.
inline int64_t unit_of(std::initializer_list<int64_t> sizes,
                       std::initializer_list<const void*> addresses) {
  int64_t unit = 16;
  for (const int64_t size : sizes) unit = std::gcd(unit, size);
  for (const void* address : addresses)
    unit = std::gcd(unit, static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) % 16));
  return unit;
}

// A copied unit: to[place.to] = from[place.from].
struct Place {
  int64_t to, from;
};

// f(Unit{}) for a type of `unit` bytes.
template <class F>
void with_unit(int64_t unit, F&& f) {
  switch (unit) {
    case 16:
      return f(uint4{});
    case 8:
      return f(uint2{});
    case 4:
      return f(uint32_t{});
    case 2:
      return f(uint16_t{});
    default:
      return f(uint8_t{});
  }
}

// Places: a struct with Place operator()(row, column), all numbers in units.
template <class Unit, class Places>
__global__ void copy_cells_kernel(Unit* to, const Unit* from, int64_t rows, int64_t columns,
                                  Places places) {
  for_cells(rows, columns, [&](int64_t row, int64_t column) {
    const Place place = places(row, column);
    to[place.to] = from[place.from];
  });
}

// Copies [rows, columns] units.
template <class Places>
void copy_cells(Stream& stream, const char* op, std::byte* to, const std::byte* from, int64_t unit,
                int64_t rows, int64_t columns, const Places& places) {
  with_unit(unit, [&]<class Unit>(Unit) {
    const Cells cells(rows, columns);
    launch(stream, op, copy_cells_kernel<Unit, Places>, cells.grid, cells.block,
           reinterpret_cast<Unit*>(to), reinterpret_cast<const Unit*>(from), rows, columns, places);
  });
}

}  // namespace sextant::cuda
