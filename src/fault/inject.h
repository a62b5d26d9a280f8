#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace sextant {

// A mistake that a run makes on purpose, to see who notices.
//   DropBucket  the gradients of a group are not reduced
//   ScaleShard  a rank's reduced gradients are doubled
//   SkipGather  the weights of a group are not gathered
//   SkipDuplicate    gradients of a group that two ranks of a pipeline hold are not summed
//   SkipCopies  gradients of elements that ranks sharing a layer each have are not summed
//   CountCopies each of them counts in the norm of the gradients
//   SameMask    dropout draws one mask for all places of the model
// Of ranks that share the sequences:
//   LocalPositions   tokens are numbered from the first that the rank has
//   LocalTargets     the last token of a run has the rank's next token as target
//   SwappedHalves    the rank's two runs of tokens change places, what they see does not
// And:
//   Stall       a rank stops taking part
//   Die         a rank's process ends at once, as by kill -9
enum class InjectionKind {
  None,
  DropBucket,
  ScaleShard,
  SkipGather,
  SkipDuplicate,
  SkipCopies,
  CountCopies,
  SameMask,
  LocalPositions,
  LocalTargets,
  SwappedHalves,
  Stall,
  Die
};

struct Injection {
  InjectionKind kind = InjectionKind::None;
  // Where it strikes; -1 means anywhere.
  int group = -1;
  int rank = -1;
  int64_t step = -1;  // counted from 1
  int micro = -1;     // Stall and Die: before the rank's first action of it; -1: before the step

  bool hits(InjectionKind what, int in_group, int on_rank, int64_t at_step) const {
    return what == kind && kind != InjectionKind::None && (group < 0 || group == in_group) &&
           (rank < 0 || rank == on_rank) && (step < 0 || step == at_step);
  }
};

// Reads "drop_bucket:group=2,step=1"; "" is none. Throws Error(Config) that names the bad part and
// what would be right.
Injection parse_injection(std::string_view text);

}  // namespace sextant
