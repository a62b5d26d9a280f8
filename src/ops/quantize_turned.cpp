#include "ops/quantize_turned.h"

#include "ops/check.h"

namespace sextant {

SXT_BACKENDS(quantize_turned);
SXT_BACKENDS(quantize_turned_tiles);

namespace {

constexpr ScaleBlock kTile{1, kScaleBlock};

void check_forms(std::string_view op, const Tensor& q, const Tensor& turned, const Tensor& x) {
  check_float(op, "x", x);
  check_dims(op, "x", x, 2);
  SXT_CHECK(x.dim(0) % kTurnedMultiple == 0 && x.dim(1) % kTurnedMultiple == 0, Usage, op,
            ": x is ", x.shape(), ", its sizes must be multiples of ", kTurnedMultiple);
  SXT_CHECK(turned && is_fp8(turned.dtype()), Usage, op, ": turned is ", name_of(turned.dtype()),
            ", must be f8e4m3 or f8e5m2");
  check_tensor(op, "turned", turned, turned.dtype(), Shape{x.dim(1), x.dim(0)});
  if (q) check_tensor(op, "q", q, turned.dtype(), x.shape());
}

}  // namespace

void quantize_turned(Stream& stream, Tensor& q, Tensor& turned, Tensor& amax, const Tensor& x,
                     const DelayedAmax& delayed) {
  check_forms("quantize_turned", q, turned, x);
  check_tensor("quantize_turned", "amax", amax, DType::F32, Shape{1, 1});
  SXT_CHECK(static_cast<bool>(delayed.used) == static_cast<bool>(delayed.found), Usage,
            "quantize_turned: used and found must both be given or none");
  if (delayed.used) {
    check_tensor("quantize_turned", "used", delayed.used, DType::F32, Shape{1, 1});
    check_tensor("quantize_turned", "found", delayed.found, DType::F32, Shape{1, 1});
  }
  Work work("quantize_turned");
  work.writes(turned, q).reads(x).flops(2.0 * x.elements());
  if (delayed.used)
    work.writes(amax, delayed.found).reads(delayed.used, delayed.found);
  else
    work.reads(amax);
  SXT_DISPATCH(stream, work, quantize_turned(stream, q, turned, amax, x, delayed));
}

void quantize_turned_tiles(Stream& stream, Tensor& q, Tensor& amax, Tensor& turned,
                           Tensor& turned_amax, const Tensor& x) {
  check_forms("quantize_turned_tiles", q, turned, x);
  check_tensor("quantize_turned_tiles", "turned_amax", turned_amax, DType::F32,
               kTile.grid(turned.shape()));
  SXT_CHECK(static_cast<bool>(q) == static_cast<bool>(amax), Usage,
            "quantize_turned_tiles: q and amax must both be given or none");
  if (q) check_tensor("quantize_turned_tiles", "amax", amax, DType::F32, kTile.grid(x.shape()));
  SXT_DISPATCH(stream,
               Work("quantize_turned_tiles")
                   .writes(turned, turned_amax, q, amax)
                   .reads(x)
                   .flops(4.0 * x.elements()),
               quantize_turned_tiles(stream, q, amax, turned, turned_amax, x));
}

}  // namespace sextant
