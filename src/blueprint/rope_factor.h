#pragma once
#include "config/config.h"

namespace sextant {

// What YaRN multiplies beside slowing the frequencies; 1 for other kinds of scaling.

// Of rotated queries and keys each: rope_attention_factor where it is set, else
// m(mscale) / m(mscale_all_dim) where both are, else m(1), with m(x) = 0.1 x ln(factor) + 1.
double rope_attention_factor(const RopeScaling& rope);

// Of whole queries in multi-head latent attention (DeepSeek-V3): m(mscale_all_dim)^2 where it is
// set.
double rope_query_scale(const RopeScaling& rope);

}  // namespace sextant
