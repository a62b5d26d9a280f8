#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "comm/call.h"

namespace sextant {

// Store through the cache, or with non-temporal stores for results too large to stay in the cache.
// After Streaming, call finish_stores before another thread is told of the result: once after many
// stores, because it waits for all of them.
enum class Stores : uint8_t { Cached, Streaming };
void finish_stores();

// out = in[0] + in[1] + ... (or max, min), element by element in this order. Narrow types
// accumulate in f32 and are rounded once to nearest even; NaN if any element is NaN. Into::Add adds
// out before the rounding. f64 f32 bf16 f16 i32 i64; integer sums wrap. `out` may be one of the
// inputs but must not overlap one partially. All transports use this, so their bits agree.
void reduce_into(std::byte* out, std::span<const std::byte* const> in, int64_t count, DType dtype,
                 ReduceOp reduce_op, Into into = Into::Replace, Stores stores = Stores::Cached);

// The same result to several outputs at once, from registers. out[i] may be in[i].
constexpr bool has_reduce_to_all(int outputs) {
  return outputs == 2 || outputs == 4 || outputs == 8;
}
void reduce_to_all(std::span<std::byte* const> out, std::span<const std::byte* const> in,
                   int64_t count, DType dtype, ReduceOp reduce_op);

// Where the source of a copy is expected; Memory is prefetched.
enum class Source : uint8_t { Memory, Cache };
void copy_into(std::byte* out, const std::byte* in, int64_t bytes, Stores stores = Stores::Cached,
               Source source = Source::Memory);

}  // namespace sextant
