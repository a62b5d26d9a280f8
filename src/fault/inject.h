#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace sextant {

// An injected fault, to test that it is detected.
// Data parallel, pipeline parallel:
//   DropBucket       the gradients of a bucket are not reduced
//   ScaleShard       a rank's reduced gradients are doubled
//   SkipGather       the weights of a group are not gathered
//   SkipDuplicate    gradients of a group that two pipeline ranks hold are not summed
// Tensor parallel:
//   SkipCopies       partial gradients of elements replicated over ranks are not summed
//   CountCopies      every replica of such elements counts in the gradient norm
// Precision:
//   Overflow         the gradients of a rank that computes the loss are not finite, as in fp16
// Dropout:
//   SameMask         one mask is used at all places of the model
// Context parallel:
//   LocalPositions   positions count from the rank's first token
//   LocalTargets     the target of the last token of a chunk is the rank's next token
//   SwappedHalves    the rank's two chunks of tokens are swapped, their attention ranges are not
// Processes:
//   Stall            a rank stops taking part
//   Die              a rank's process ends at once, as by kill -9
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
  Overflow,
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
