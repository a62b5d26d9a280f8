#pragma once
#include <cuda_runtime.h>

#include <span>

#include "ops/heads.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant::cuda {

// Cuts the stream's scratch memory into arrays.
class Scratch {
 public:
  Scratch(Stream& stream, const char* op) : op_(op), left_(stream.shared_scratch()) {}
  template <class T>
  T* take(int64_t count) {
    const int64_t bytes = (count * static_cast<int64_t>(sizeof(T)) + 255) / 256 * 256;
    SXT_CHECK(bytes <= static_cast<int64_t>(left_.size()), Usage, op_, ": needs ", bytes,
              " more bytes of scratch memory, ", left_.size(),
              " are left; a smaller micro-batch needs less");
    T* out = reinterpret_cast<T*>(left_.data());
    left_ = left_.subspan(static_cast<size_t>(bytes));
    return out;
  }
  std::span<std::byte> rest() const { return left_; }

 private:
  const char* op_;
  std::span<std::byte> left_;
};

// The keys that each query sees, [batch, seq], in scratch memory. Bad bounds are reported as by
// cpu::Bounds, and clamped: a bound becomes the largest of those up to it in its row, each at least
// 0 and at most its limit.

// The length of each row of the batch, in device memory: seq if it is one document, otherwise 0.
struct RowLengths {
  int32_t* data = nullptr;  // [batch, copies]; null: nobody wants them
  int64_t copies = 0;
  int32_t* are_all_seq = nullptr;  // 1 or 0
};

// The last heads.window of keys starts[i] ... i, the ranges of attention. Also writes `lengths`.
const int2* causal_ranges(Stream& stream, Scratch& scratch, const Tensor& starts,
                          const Heads& heads, const RowLengths& lengths);
// Keys begin[i] ... end[i] - 1 of kv_seq; `op` names the op in the report.
const int2* given_ranges(Stream& stream, Scratch& scratch, const char* op, const Tensor& begin,
                         const Tensor& end, const Heads& heads, int64_t kv_seq);
// The last `window` (0: all) of keys 0 ... past + i * step for the queries of every row of the
// batch.
const int2* cached_ranges(Stream& stream, Scratch& scratch, int64_t batch, int64_t seq,
                          int64_t past, int64_t step, int64_t window);

}  // namespace sextant::cuda
