#pragma once
#include "ops/dispatch.h"

namespace sextant {

// Delayed scaling in fp8: a tensor is quantised with the largest absolute value that it had in the
// steps before.

// found = max(found, amax), NaN above all; then, with WithAmax::Used, amax = used; with UsedIfAny
// unless used is 0.
//   amax, found, used: one element each, f32
enum class WithAmax { Found, Used, UsedIfAny };
void take_delayed_amax(Stream& stream, Tensor& amax, Tensor& found, const Tensor& used,
                       WithAmax with);

// The end of a step: each row enters its found amax into its history, from which the oldest falls,
// and takes the largest of the history times 2^margin for the next step. A found amax that is not
// finite is not entered; a history of zeros changes nothing.
//   state: [rows, 1 + steps]: the amax in use, then the history, newest first   found: [rows]
void update_delayed_amax(Stream& stream, Tensor& state, const Tensor& found, int64_t margin);

}  // namespace sextant
