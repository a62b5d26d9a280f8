#pragma once
#include <cstdint>

namespace sextant {

// Calls of operator new in this process so far. A program that links this counts them all.
int64_t heap_allocations();
// Pages that the kernel had to provide to this process so far.
int64_t page_faults();

}  // namespace sextant
