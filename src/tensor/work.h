#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "tensor/tensor.h"
#include "trace/trace.h"

namespace sextant {

// The trace entry of an operation: what it reads, writes and computes. Built only while a trace is
// recorded. Empty tensors are skipped, and a tensor passed twice counts once; tensors of a list
// must be distinct.
//   Work("rmsnorm").writes(y, inv_rms).reads(x, weight).flops(4.0 * x.elements())
class Work {
 public:
  explicit Work(const char* name) : name_(name) {}  // a literal

  template <class... T>
  Work& writes(const T&... tensors) {
    (add(tensors, true), ...);
    return *this;
  }
  template <class... T>
  Work& reads(const T&... tensors) {
    (add(tensors, false), ...);
    return *this;
  }
  // A tensor of which only `bytes` are accessed: rows of a table, some columns.
  Work& writes_some(const Tensor& tensor, int64_t bytes) { return some(tensor, bytes, true); }
  Work& reads_some(const Tensor& tensor, int64_t bytes) { return some(tensor, bytes, false); }
  Work& flops(double count) {
    flops_ = count;
    return *this;
  }

  struct Operand {
    Tensor tensor;
    bool is_written;
    int64_t bytes;  // touched
  };
  const char* name() const { return name_; }
  std::span<const Operand> operands() const { return operands_; }
  double flops() const { return flops_; }

 private:
  void add(const Tensor& tensor, bool is_written) {
    if (tensor && !has(tensor, is_written)) put(tensor, is_written);
  }
  void add(std::span<const Tensor> tensors, bool is_written) {
    for (const Tensor& tensor : tensors)
      if (tensor) put(tensor, is_written);
  }
  void put(const Tensor& tensor, bool is_written) {
    operands_.push_back({tensor, is_written, tensor.bytes()});
  }
  // Among the last operands: those of a list, of thousands, are distinct.
  bool has(const Tensor& tensor, bool is_written) const {
    constexpr size_t kCompared = 16;
    const std::span last = operands().last(std::min(kCompared, operands_.size()));
    return std::ranges::any_of(last, [&](const Operand& operand) {
      return operand.is_written == is_written && operand.tensor.raw() == tensor.raw() &&
             operand.bytes == tensor.bytes();
    });
  }
  Work& some(const Tensor& tensor, int64_t bytes, bool is_written) {
    if (tensor) operands_.push_back({tensor, is_written, bytes});
    return *this;
  }

  const char* name_;
  std::vector<Operand> operands_;
  double flops_ = 0;
};

}  // namespace sextant
