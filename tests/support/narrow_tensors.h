#pragma once
// Tensors for tests of bf16 and f16: random numbers that the narrow type holds exactly.
#include <cmath>
#include <vector>

#include "base/random.h"
#include "support/workbench.h"
#include "tensor/convert.h"

namespace sextant {

// A tensor of a case. Its values are random numbers that the narrow type holds.
struct Spec {
  enum class Type { Narrow, Float, Double, Ints } type;
  Shape shape;
  int64_t below = 1;  // Ints: i * 7 % below
  bool is_positive = false;
};
inline Spec narrow(const Shape& shape) {
  return {Spec::Type::Narrow, shape};
}
inline Spec wide(const Shape& shape) {
  return {Spec::Type::Float, shape};
}
inline Spec positive(const Shape& shape) {
  return {Spec::Type::Float, shape, 1, true};
}
inline Spec f64(const Shape& shape) {
  return {Spec::Type::Double, shape, 1, true};
}
inline Spec ints(const Shape& shape, int64_t below) {
  return {Spec::Type::Ints, shape, below};
}

inline std::vector<float> values_of(const Spec& spec, size_t number, DType dtype) {
  std::vector<float> values(static_cast<size_t>(spec.shape.elements()));
  const Random random(3, concat("tensor ", number));
  for (size_t i = 0; i < values.size(); ++i) {
    const double normal = random.normal(i);
    values[i] = static_cast<float>(spec.is_positive ? 0.5 + std::abs(normal) : normal);
  }
  std::vector<std::byte> rounded(values.size() * 2);
  const auto count = static_cast<int64_t>(values.size());
  std::byte* floats = reinterpret_cast<std::byte*>(values.data());
  convert(dtype, rounded.data(), DType::F32, floats, count);
  convert(DType::F32, floats, dtype, rounded.data(), count);
  return values;
}

inline Tensor make_tensor(Workbench& bench, const Spec& spec, size_t number, DType narrow_type,
                          bool is_narrow) {
  if (spec.type == Spec::Type::Ints) {
    std::vector<int32_t> ids(static_cast<size_t>(spec.shape.elements()));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % spec.below);
    return bench.make<int32_t>(spec.shape, ids);
  }
  const std::vector<float> values = values_of(spec, number, narrow_type);
  if (spec.type == Spec::Type::Double)
    return bench.make<double>(spec.shape, {values.begin(), values.end()});
  if (spec.type == Spec::Type::Float || !is_narrow) return bench.make<float>(spec.shape, values);
  Tensor tensor = bench.arena().allocate(Category::Activations, narrow_type, spec.shape);
  copy_floats_from_host(bench.stream(), tensor, values);
  return tensor;
}

// The elements of a narrow tensor that holds these values.
inline std::vector<std::byte> rounded(std::vector<float> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * 2);
  convert(dtype, bytes.data(), DType::F32, reinterpret_cast<std::byte*>(values.data()),
          static_cast<int64_t>(values.size()));
  return bytes;
}

}  // namespace sextant
