#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/range.h"
#include "trace/address_plan.h"
#include "trace/slot_pools.h"

namespace sextant {

// The parts of a run that repeat, each with a memory plan.
//   Step        the micro-batches of a training step, until its gradients are finished
//   Evaluation  forward passes
//   Redo        in the middle of a step: its forwards are discarded and the step begins again
enum class Program : uint8_t { Step, Evaluation, Redo };
inline constexpr int kPrograms = 3;

// Bytes that a tensor takes where addresses are multiples of `alignment`; never 0.
constexpr int64_t round_up(int64_t bytes, int64_t alignment) {
  const int64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return rounded > alignment ? rounded : alignment;
}

// The recorded tensors of a program in order of allocation. Its events, numbered from 0, are
// allocations and frees. Cycles that were left out of the record have a plan of their own.
struct ProgramPlan {
  std::vector<Lifetime> lifetimes;
  std::vector<int64_t> offsets;  // from the end of the resident part
  Cycle cycle;
  SlotPools pools;

  // Of the whole program.
  int64_t size() const { return cycle.whole_size(lifetimes); }
  Lifetime lifetime(int64_t tensor) const { return cycle.lifetime(lifetimes, tensor); }
  int64_t offset(int64_t tensor) const;
};

// All memory of a rank: resident memory first, then the programs, which share the same addresses.
struct ArenaPlan {
  int64_t resident = 0;
  std::array<ProgramPlan, kPrograms> programs;
  int64_t reserved = 0;  // total bytes
  int64_t peak = 0;      // most bytes alive at one time, rounded up to the alignment

  ProgramPlan& operator[](Program program) { return programs[static_cast<size_t>(program)]; }
  const ProgramPlan& operator[](Program program) const {
    return programs[static_cast<size_t>(program)];
  }
};

// The recorded allocations of a run, from which a plan is made.
struct ArenaRecord {
  int64_t resident = 0;
  std::array<std::vector<Lifetime>, kPrograms> programs;
  std::array<Cycle, kPrograms> cycles;
  // For each tensor of Redo: indices of the tensors of Step that are alive when it is allocated.
  std::vector<std::vector<int32_t>> alive_at_redo;
};

// The plan of a record. None if cycles were left out of it that do not repeat the recorded ones.
// `work`: see plan_addresses.
std::optional<ArenaPlan> plan_arena(ArenaRecord record, int64_t work = kSearchWork);

}  // namespace sextant
