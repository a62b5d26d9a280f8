#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "base/range.h"
#include "trace/address_plan.h"

namespace sextant {

// What a rank runs again and again, each with memory planned ahead.
//   Step        the micro-batches of a training step, until its gradients are finished
//   Evaluation  forward passes
//   Redo        in the middle of a step: its forwards are discarded, and it begins again
enum class Program : uint8_t { Step, Evaluation, Redo };
inline constexpr int kPrograms = 3;

// Addresses start at multiples of this.
inline constexpr int64_t kAlignment = 64;
constexpr int64_t round_up(int64_t bytes) {
  const int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return rounded > kAlignment ? rounded : kAlignment;
}

// The tensors of a program in the order in which they are allocated. Allocating and freeing are its
// events, numbered from 0.
struct ProgramPlan {
  std::vector<Lifetime> lifetimes;
  std::vector<int64_t> offsets;  // behind the resident part
};

// All memory of a rank: at the bottom what it keeps all the time, above it the programs, which
// share the same addresses.
struct ArenaPlan {
  int64_t resident = 0;
  std::array<ProgramPlan, kPrograms> programs;
  int64_t reserved = 0;  // bytes in all
  int64_t peak = 0;      // most bytes alive at one time, rounded up as they are placed

  ProgramPlan& operator[](Program program) { return programs[static_cast<size_t>(program)]; }
  const ProgramPlan& operator[](Program program) const {
    return programs[static_cast<size_t>(program)];
  }
};

// What a run was seen to allocate, before it has addresses.
struct ArenaRecord {
  int64_t resident = 0;
  std::array<std::vector<Lifetime>, kPrograms> programs;
  // Places among the tensors of a step of those that live when a Redo allocates, by its tensor.
  std::vector<std::vector<int32_t>> alive_at_redo;
};

ArenaPlan plan_arena(const ArenaRecord& record);

}  // namespace sextant
