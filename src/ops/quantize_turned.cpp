#include "ops/quantize_turned.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(quantize_turned);
SXT_BACKENDS(quantize_turned_tiles);
SXT_BACKENDS(activated_amax);
SXT_BACKENDS(sum_turned_tiles);

namespace {

constexpr ScaleBlock kTile{1, kScaleBlock};

void check_activated(std::string_view op, const Tensor& x, const Activated& activated) {
  check_float(op, "x", x);
  check_dims(op, "x", x, 2);
  SXT_CHECK(x.dim(0) % kTurnedMultiple == 0 && x.dim(1) % kTurnedMultiple == 0, Usage, op,
            ": x is ", x.shape(), ", its sizes must be multiples of ", kTurnedMultiple);
  if (!activated.backward_of) return;
  check_tensor(op, "backward_of", activated.backward_of, x.dtype(), x.shape());
  SXT_CHECK(activated.activation != Activation::None, Usage, op,
            ": backward_of is given, but no activation");
}

void check_forms(std::string_view op, const Tensor& q, const Tensor& turned, const Tensor& x) {
  const Tensor& either = turned ? turned : q;
  SXT_CHECK(either && is_fp8(either.dtype()), Usage, op, ": ", turned ? "turned" : "q", " is ",
            name_of(either.dtype()), ", must be f8e4m3 or f8e5m2");
  if (turned) check_tensor(op, "turned", turned, either.dtype(), Shape{x.dim(1), x.dim(0)});
  if (q) check_tensor(op, "q", q, either.dtype(), x.shape());
}

void check_sums(std::string_view op, const Tensor& sums, const Tensor& turned, const Tensor& x) {
  if (!sums) return;
  SXT_CHECK(turned, Usage, op, ": sums are given, but turned is empty");
  check_tensor(op, "sums", sums, DType::F32, Shape{turned_tiles(x.dim(0)), x.dim(1)});
}

double flops_of(const Tensor& x, double each, const Activated& activated) {
  const double of_activation = activated.activation == Activation::None ? 0 : kActivationFlops;
  return (each + of_activation) * static_cast<double>(x.elements());
}

}  // namespace

void quantize_turned(Stream& stream, Tensor& q, Tensor& turned, Tensor& amax, const Tensor& x,
                     const Turning& turning) {
  const DelayedAmax& delayed = turning.delayed;
  check_activated("quantize_turned", x, turning.activated);
  check_forms("quantize_turned", q, turned, x);
  check_sums("quantize_turned", turning.sums, turned, x);
  check_tensor("quantize_turned", "amax", amax, DType::F32, Shape{1, 1});
  SXT_CHECK(static_cast<bool>(delayed.used) == static_cast<bool>(delayed.found), Usage,
            "quantize_turned: used and found must both be given or none");
  if (delayed.used) {
    check_tensor("quantize_turned", "used", delayed.used, DType::F32, Shape{1, 1});
    check_tensor("quantize_turned", "found", delayed.found, DType::F32, Shape{1, 1});
  }
  Work work("quantize_turned");
  work.writes(turned, q, turning.sums)
      .reads(x, turning.activated.backward_of)
      .flops(flops_of(x, turning.sums ? 4 : 2, turning.activated));
  if (delayed.used)
    work.writes(amax, delayed.found).reads(delayed.used, delayed.found);
  else
    work.reads(amax);
  SXT_DISPATCH(stream, work, quantize_turned(stream, q, turned, amax, x, turning));
}

void quantize_turned_tiles(Stream& stream, Tensor& q, Tensor& amax, Tensor& turned,
                           Tensor& turned_amax, const Tensor& x, const Turning& turning) {
  check_activated("quantize_turned_tiles", x, turning.activated);
  check_forms("quantize_turned_tiles", q, turned, x);
  check_sums("quantize_turned_tiles", turning.sums, turned, x);
  SXT_CHECK(!turning.delayed.used && !turning.delayed.found, Usage,
            "quantize_turned_tiles: tiles have no delayed scale");
  SXT_CHECK(static_cast<bool>(q) == static_cast<bool>(amax), Usage,
            "quantize_turned_tiles: q and amax must both be given or none");
  SXT_CHECK(static_cast<bool>(turned) == static_cast<bool>(turned_amax), Usage,
            "quantize_turned_tiles: turned and turned_amax must both be given or none");
  if (q) check_tensor("quantize_turned_tiles", "amax", amax, DType::F32, kTile.grid(x.shape()));
  if (turned)
    check_tensor("quantize_turned_tiles", "turned_amax", turned_amax, DType::F32,
                 kTile.grid(turned.shape()));
  SXT_DISPATCH(stream,
               Work("quantize_turned_tiles")
                   .writes(turned, turned_amax, q, amax, turning.sums)
                   .reads(x, turning.activated.backward_of)
                   .flops(flops_of(x, turning.sums ? 6 : 4, turning.activated)),
               quantize_turned_tiles(stream, q, amax, turned, turned_amax, x, turning));
}

void activated_amax(Stream& stream, Tensor& amax, const Tensor& x, const Activated& activated) {
  check_activated("activated_amax", x, activated);
  check_tensor("activated_amax", "amax", amax, DType::F32, Shape{1, 1});
  SXT_DISPATCH(stream,
               Work("activated_amax")
                   .writes(amax)
                   .reads(x, activated.backward_of)
                   .flops(flops_of(x, 1, activated)),
               activated_amax(stream, amax, x, activated));
}

void sum_turned_tiles(Stream& stream, Tensor& out, const Tensor& sums, Write write) {
  check_dims("sum_turned_tiles", "sums", sums, 2);
  check_tensor("sum_turned_tiles", "sums", sums, DType::F32, sums.shape());
  check_float("sum_turned_tiles", "out", out);
  check_tensor("sum_turned_tiles", "out", out, out.dtype(), Shape{sums.dim(1)});
  SXT_CHECK(write != Write::Chain, Usage,
            "sum_turned_tiles: write is Chain, must be Replace or Add");
  SXT_DISPATCH(stream,
               Work("sum_turned_tiles")
                   .writes(out)
                   .reads(sums, write == Write::Replace ? Tensor() : out)
                   .flops(1.0 * static_cast<double>(sums.elements())),
               sum_turned_tiles(stream, out, sums, write));
}

}  // namespace sextant
