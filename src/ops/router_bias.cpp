#include "ops/router_bias.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(const RouterBiasPart& part) {
  constexpr std::string_view kOp = "router_bias_update";
  check_float(kOp, "bias", part.bias);
  const DType statistics = statistics_of(part.bias.dtype());
  check_tensor(kOp, "error", part.error, statistics, part.bias.shape());
  if (part.master) check_tensor(kOp, "master", part.master, statistics, part.bias.shape());
}

Work work_of(std::span<const RouterBiasPart> parts, const Tensor& scalars) {
  Work work("router_bias_update");
  double flops = 0;
  for (const RouterBiasPart& part : parts) {
    work.writes(part.bias, part.master);
    work.reads(part.master ? part.master : part.bias, part.error);
    flops += 2.0 * static_cast<double>(part.bias.elements());
  }
  return work.reads(scalars).flops(flops);
}

}  // namespace

SXT_BACKENDS(router_load_error)
SXT_BACKENDS(router_bias_update)

void router_load_error(Stream& stream, Tensor& error, const Tensor& counts, Write write) {
  constexpr std::string_view kOp = "router_load_error";
  check_dims(kOp, "counts", counts, 1);
  check_tensor(kOp, "counts", counts, DType::I32, counts.shape());
  SXT_CHECK(error && (error.dtype() == DType::F32 || error.dtype() == DType::F64), Usage, kOp,
            ": error is ", name_of(error.dtype()), ", must be f32 or f64");
  check_tensor(kOp, "error", error, error.dtype(), counts.shape());
  Work work("router_load_error");
  work.writes(error).reads(counts).flops(3.0 * static_cast<double>(counts.elements()));
  if (write != Write::Replace) work.reads(error);
  SXT_DISPATCH(stream, work, router_load_error(stream, error, counts, write));
}

void router_bias_update(Stream& stream, std::span<const RouterBiasPart> parts,
                        const Tensor& scalars, double rate) {
  for (const RouterBiasPart& part : parts) check(part);
  check_tensor("router_bias_update", "scalars", scalars, DType::F64, {kUpdateScalars});
  SXT_DISPATCH(stream, work_of(parts, scalars), router_bias_update(stream, parts, scalars, rate));
}

}  // namespace sextant
