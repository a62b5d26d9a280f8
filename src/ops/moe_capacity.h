#pragma once
#include "ops/dispatch.h"

namespace sextant {

// In place of an expert or of a place: a choice that no expert computes.
inline constexpr int32_t kDropped = -1;

// Capacity of experts. Of the choices of a unit of tokens an expert computes the first `capacity`,
// in the order of the tokens; the others are dropped. kept may be choice.
//   kept, choice: i32 [tokens, chosen]; kept is the choice or kDropped
void moe_limit(Stream& stream, Tensor& kept, const Tensor& choice, int64_t capacity,
               int64_t experts);
// The choices of each expert, without dropped ones.   counts: i32 [experts]
void moe_count(Stream& stream, Tensor& counts, const Tensor& kept);
// dropped += the pairs without a place.   dropped: f64 [1]   places: i32 [pairs]
void moe_count_dropped(Stream& stream, Tensor& dropped, const Tensor& places);

}  // namespace sextant
