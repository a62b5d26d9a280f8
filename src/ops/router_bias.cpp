#include "ops/router_bias.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(std::string_view op, std::span<const RouterBiasPart> parts, const Tensor& scalars) {
  for (const RouterBiasPart& part : parts) {
    check_float(op, "bias", part.bias);
    const DType statistics = statistics_of(part.bias.dtype());
    check_tensor(op, "error", part.error, statistics, part.bias.shape());
    if (part.master) check_tensor(op, "master", part.master, statistics, part.bias.shape());
  }
  check_tensor(op, "scalars", scalars, DType::F64, {kUpdateScalars});
}

enum class Old { Read, Replaced };  // of a bias

Work work_of(const char* op, std::span<const RouterBiasPart> parts, const Tensor& scalars,
             Old old) {
  Work work(op);
  double flops = 0;
  for (const RouterBiasPart& part : parts) {
    work.writes(part.bias, part.master).reads(part.error);
    if (old == Old::Read) work.reads(part.master ? part.master : part.bias);
    flops += 2.0 * static_cast<double>(part.bias.elements());
  }
  return work.reads(scalars).flops(flops);
}

}  // namespace

SXT_BACKENDS(router_load_error)
SXT_BACKENDS(router_bias_update)
SXT_BACKENDS(router_load_update)

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
  check("router_bias_update", parts, scalars);
  SXT_DISPATCH(stream, work_of("router_bias_update", parts, scalars, Old::Read),
               router_bias_update(stream, parts, scalars, rate));
}

void router_load_update(Stream& stream, std::span<const RouterBiasPart> parts,
                        const Tensor& scalars) {
  check("router_load_update", parts, scalars);
  SXT_DISPATCH(stream, work_of("router_load_update", parts, scalars, Old::Replaced),
               router_load_update(stream, parts, scalars));
}

}  // namespace sextant
