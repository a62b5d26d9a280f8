#pragma once
#include "train/equal_bits.h"
#include "train/layout_run.h"
#include "train/reorderings.h"
#include "train/verify.h"

namespace sextant {

// A layout's run: its weights and optimizer state before and after, and the records in between.
struct FreeRun {
  GlobalState start, end;
  std::vector<StepRecord> records;
};

// Compares a layout that trained by itself with a reference that does, too: losses, norms, and the
// weights and optimizer state at the end.
void compare_free(const FreeRun& layout, LayoutRun& reference, Reorderings& reorderings,
                  const EqualBits& bits, VerifyReport& report);

}  // namespace sextant
