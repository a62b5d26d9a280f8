#include "ops/sgd.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(const SgdPart& part, double momentum) {
  check_float("sgd", "weight", part.weight);
  const DType dtype = part.weight.dtype();
  const Shape& shape = part.weight.shape();
  check_gradient("sgd", "gradient", part.gradient, dtype, shape);
  if (part.velocity) check_tensor("sgd", "velocity", part.velocity, statistics_of(dtype), shape);
  if (part.master) check_tensor("sgd", "master", part.master, statistics_of(dtype), shape);
  SXT_CHECK(part.velocity || momentum == 0, Usage, "sgd: momentum ", momentum,
            " needs a velocity, got an empty one");
}

Work work_of(std::span<const SgdPart> parts, const Tensor& scalars) {
  Work work("sgd");
  double flops = 0;
  for (const SgdPart& part : parts) {
    work.writes(part.weight, part.master, part.velocity);
    work.reads(part.master ? part.master : part.weight, part.velocity, part.gradient);
    flops += (part.velocity ? 6.0 : 4.0) * static_cast<double>(part.weight.elements());
  }
  return work.reads(scalars).flops(flops);
}

}  // namespace

SXT_BACKENDS(sgd)

void sgd(Stream& stream, std::span<const SgdPart> parts, const Tensor& scalars, double momentum) {
  for (const SgdPart& part : parts) check(part, momentum);
  check_tensor("sgd", "scalars", scalars, DType::F64, {kUpdateScalars});
  SXT_DISPATCH(stream, work_of(parts, scalars), sgd(stream, parts, scalars, momentum));
}

}  // namespace sextant
