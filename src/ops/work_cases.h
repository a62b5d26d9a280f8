#pragma once
#include <functional>
#include <span>
#include <vector>

#include "tensor/stream.h"

namespace sextant {

// Calls of every op, small enough to be tried with each of their bytes changed. For tests.

// A tensor of a case: normal values, or these whole numbers.
struct CaseTensor {
  DType dtype;
  Shape shape;
  double scale = 1, offset = 0;
  std::vector<int32_t> whole = {};
};

// How much of what an op lists as read decides about its result.
enum class Reads { All, AtMost };

struct WorkCase {
  const char* name;
  std::vector<CaseTensor> tensors;
  std::function<void(Stream&, std::span<Tensor>)> call;  // with all of `tensors`
  Reads reads = Reads::All;
};

const std::vector<WorkCase>& work_cases();

}  // namespace sextant
