#include "ops/adamw.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(const AdamWPart& part) {
  check_float("adamw", "weight", part.weight);
  const DType dtype = part.weight.dtype();
  const Shape& shape = part.weight.shape();
  const DType moments = dtype != DType::F64 && part.first_moment.dtype() == DType::BF16
                            ? DType::BF16
                            : statistics_of(dtype);
  check_tensor("adamw", "first_moment", part.first_moment, moments, shape);
  check_tensor("adamw", "second_moment", part.second_moment, moments, shape);
  check_gradient("adamw", "gradient", part.gradient, dtype, shape);
  if (part.master) check_tensor("adamw", "master", part.master, statistics_of(dtype), shape);
}

Work work_of(std::span<const AdamWPart> parts, const Tensor& scalars) {
  Work work("adamw");
  double elements = 0;
  for (const AdamWPart& part : parts) {
    work.writes(part.weight, part.master, part.first_moment, part.second_moment);
    work.reads(part.master ? part.master : part.weight, part.first_moment, part.second_moment,
               part.gradient);
    elements += static_cast<double>(part.weight.elements());
  }
  return work.reads(scalars).flops(14 * elements);
}

}  // namespace

SXT_BACKENDS(adamw)

void adamw(Stream& stream, std::span<const AdamWPart> parts, const Tensor& scalars,
           const AdamWSettings& settings) {
  for (const AdamWPart& part : parts) check(part);
  check_tensor("adamw", "scalars", scalars, DType::F64, {kUpdateScalars});
  SXT_DISPATCH(stream, work_of(parts, scalars), adamw(stream, parts, scalars, settings));
}

}  // namespace sextant
