#pragma once
#include "ops/cuda/attention_args.h"

namespace sextant::cuda {

// The kernels for f32, without tensor cores: their f32 mode would round the factors to 11 bits.
void attend_f32(Stream& stream, const ForwardArgs& args);
void keys_backward_f32(Stream& stream, const BackwardArgs& args);
void queries_backward_f32(Stream& stream, const BackwardArgs& args);

}  // namespace sextant::cuda
