#pragma once
#include "plan/search.h"

namespace sextant {

// The dry run of a layout as `plan` writes it: one rank of each kind on a phantom device. A layout
// is refused, too, where this takes more operations than a search has time for; layouts like it are
// then refused without another trial.
DryRunner dry_runner();

}  // namespace sextant
