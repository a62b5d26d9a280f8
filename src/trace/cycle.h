#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "trace/address_plan.h"

namespace sextant {

// A program recorded without some of its cycles: parts that repeat, each with the same allocations
// and frees. The record has several of them before `end`; `left_out` more follow there in the
// program. Tensors and events of the whole program are numbered as if nothing were left out.
struct Cycle {
  int32_t tensors = 0, events = 0;  // per cycle
  int32_t end = 0, end_event = 0;   // next tensor and event after the recorded cycles
  int32_t left_out = 0;             // cycles; 0: the record is whole
  // Set by `measure`: equal cycles in the record, and how many of them it takes until all tensors
  // of the first one are freed.
  int32_t reach = 0, depth = 0;

  // The first tensor of the cycle `back` cycles before `end`.
  size_t begin_of(int32_t back) const { return static_cast<size_t>(end - back * tensors); }
  // Events for which tensor `place` of a cycle lives.
  int32_t duration(std::span<const Lifetime> recorded, size_t place) const {
    const Lifetime& first = recorded[begin_of(depth) + place];
    return first.end - first.begin;
  }
  // Number of tensors in the whole program.
  int64_t whole_size(std::span<const Lifetime> recorded) const {
    return static_cast<int64_t>(recorded.size()) + int64_t{left_out} * tensors;
  }
  // Lifetime of tensor `index` in the whole program.
  Lifetime lifetime(std::span<const Lifetime> recorded, int64_t index) const;
};

// Sets `depth` and `reach`. False if the recorded cycles are not equal: if they differ in sizes or
// in the order of allocations and frees, or if the last one frees a tensor from before all cycles.
bool measure(std::span<const Lifetime> recorded, Cycle& cycle);

}  // namespace sextant
