#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "comm/call.h"

namespace sextant {

// Where a finished result goes: through the cache, or past it to memory when it is too large to be
// found there again. Others may be told of the latter only after finish_stores; once for many,
// because it waits for all of them.
enum class Stores : uint8_t { Cached, Streaming };
void finish_stores();

// out = in[0] + in[1] + ... (or their largest, smallest), element by element in this order; narrow
// types in f32, rounded once to nearest even; NaN if any element is. Into::Add: out += that, before
// the rounding. f64 f32 bf16 f16 i32 i64, sums of integers wrap. `out` may be one of the inputs,
// but not overlap one otherwise. Every transport folds with this, so their bits agree.
void fold_into(std::byte* out, std::span<const std::byte* const> in, int64_t count, DType dtype,
               Fold fold, Into into = Into::Replace, Stores stores = Stores::Cached);

// The same into several outputs at once, straight from registers.
// Every output may be the input of its own number.
constexpr bool has_fold_to_all(int outputs) {
  return outputs == 2 || outputs == 4 || outputs == 8;
}
void fold_to_all(std::span<std::byte* const> out, std::span<const std::byte* const> in,
                 int64_t count, DType dtype, Fold fold);

// Where what is copied comes from; memory is asked for it ahead.
enum class Source : uint8_t { Memory, Cache };
void copy_into(std::byte* out, const std::byte* in, int64_t bytes, Stores stores = Stores::Cached,
               Source source = Source::Memory);

}  // namespace sextant
