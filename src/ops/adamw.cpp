#include "ops/adamw.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(const AdamWPart& part) {
  check_float("adamw", "weight", part.weight);
  const DType dtype = part.weight.dtype();
  check_tensor("adamw", "first_moment", part.first_moment, dtype, part.weight.shape());
  check_tensor("adamw", "second_moment", part.second_moment, dtype, part.weight.shape());
  check_tensor("adamw", "gradient", part.gradient, dtype, part.weight.shape());
}

Work work_of(std::span<const AdamWPart> parts, const Tensor& scalars) {
  Work work("adamw");
  double elements = 0;
  for (const AdamWPart& part : parts) {
    work.writes(part.weight, part.first_moment, part.second_moment);
    work.reads(part.weight, part.first_moment, part.second_moment, part.gradient);
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
