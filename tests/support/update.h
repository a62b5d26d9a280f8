#pragma once
#include "ops/update.h"
#include "support/workbench.h"

namespace sextant {

// The scalars of an update in device memory.
inline Tensor update_scalars(Workbench& bench, double lr, double correction1 = 1,
                             double correction2 = 1, double gradient_scale = 1, double apply = 1,
                             double step = 0) {
  return bench.make<double>({kUpdateScalars},
                            {lr, correction1, correction2, gradient_scale, apply, 1, step});
}

}  // namespace sextant
