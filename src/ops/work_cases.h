#pragma once
#include <functional>
#include <span>
#include <vector>

#include "tensor/stream.h"

namespace sextant {

// Calls of every op for tests, small enough to repeat with each byte changed.

// A tensor of a case: normal values, or the integers `whole`.
struct CaseTensor {
  DType dtype;
  Shape shape;
  double scale = 1, offset = 0;
  std::vector<int32_t> whole = {};
};

inline CaseTensor f32_case(const Shape& shape) {
  return {DType::F32, shape};
}
inline CaseTensor i32_case(const Shape& shape, const std::vector<int32_t>& values) {
  return {DType::I32, shape, 1, 0, values};
}

inline CaseTensor positive(const Shape& shape, DType dtype = DType::F32) {
  return {dtype, shape, 0.1, 2};
}
inline CaseTensor typed(DType dtype, const Shape& shape) {
  return {dtype, shape};
}

// Whether all bytes that an op lists as read affect its result.
enum class Reads { All, AtMost };

// Devices that have the op: all, or none but the CPU (SXT_CPU_BACKEND).
enum class RunsOn { All, Cpu };

struct WorkCase {
  const char* name;
  std::vector<CaseTensor> tensors;
  std::function<void(Stream&, std::span<Tensor>)> call;  // with all of `tensors`
  Reads reads = Reads::All;
  RunsOn runs_on = RunsOn::All;
};

const std::vector<WorkCase>& work_cases();  // all
std::vector<WorkCase> expert_cases();
std::vector<WorkCase> fp8_cases();

}  // namespace sextant
