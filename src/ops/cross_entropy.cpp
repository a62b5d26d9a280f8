#include "ops/cross_entropy.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check_chunk(std::string_view op, const Tensor& logits, const Tensor& targets,
                 int64_t first_column, int64_t vocab) {
  check_float(op, "logits", logits);
  check_dims(op, "logits", logits, 2);
  check_tensor(op, "targets", targets, DType::I32, {logits.dim(0)});
  SXT_CHECK(vocab > 0 && first_column >= 0, Usage, op, ": vocab=", vocab,
            " and first_column=", first_column, ", must be positive and not negative");
}

}  // namespace

SXT_BACKENDS(cross_entropy)
SXT_BACKENDS(cross_entropy_begin)
SXT_BACKENDS(cross_entropy_chunk)
SXT_BACKENDS(cross_entropy_join)
SXT_BACKENDS(cross_entropy_end)
SXT_BACKENDS(cross_entropy_backward)

void cross_entropy(Stream& stream, Tensor& loss, Tensor& lse, Tensor& running, Tensor& logits,
                   const Tensor& targets, int64_t vocab, const Tensor& scale, double z_loss) {
  constexpr std::string_view kOp = "cross_entropy";
  check_chunk(kOp, logits, targets, 0, vocab);
  const DType statistics = statistics_of(logits.dtype());
  check_tensor(kOp, "running", running, statistics, {logits.dim(0), 3});
  check_tensor(kOp, "loss", loss, statistics, {logits.dim(0)});
  check_tensor(kOp, "lse", lse, statistics, {logits.dim(0)});
  check_tensor(kOp, "scale", scale, DType::F64, {1});
  SXT_DISPATCH(stream,
               Work("cross_entropy")
                   .writes(loss, lse, running, logits)
                   .reads(logits, targets, scale)
                   .flops(7.0 * logits.elements() + 6.0 * loss.elements()),
               cross_entropy(stream, loss, lse, running, logits, targets, vocab, scale, z_loss));
}

void cross_entropy_begin(Stream& stream, Tensor& running) {
  check_float("cross_entropy_begin", "running", running);
  check_dims("cross_entropy_begin", "running", running, 2);
  check_tensor("cross_entropy_begin", "running", running, running.dtype(), {running.dim(0), 3});
  SXT_DISPATCH(stream, Work("cross_entropy_begin").writes(running),
               cross_entropy_begin(stream, running));
}

void cross_entropy_chunk(Stream& stream, Tensor& running, const Tensor& logits,
                         const Tensor& targets, int64_t first_column, int64_t vocab) {
  check_chunk("cross_entropy_chunk", logits, targets, first_column, vocab);
  check_tensor("cross_entropy_chunk", "running", running, statistics_of(logits.dtype()),
               {logits.dim(0), 3});
  SXT_DISPATCH(stream,
               Work("cross_entropy_chunk")
                   .writes(running)
                   .reads(running, logits, targets)
                   .flops(4.0 * logits.elements()),
               cross_entropy_chunk(stream, running, logits, targets, first_column, vocab));
}

void cross_entropy_join(Stream& stream, Tensor& running, const Tensor& parts) {
  constexpr std::string_view kOp = "cross_entropy_join";
  check_float(kOp, "parts", parts);
  check_dims(kOp, "parts", parts, 3);
  check_tensor(kOp, "parts", parts, parts.dtype(), {parts.dim(0), parts.dim(1), 3});
  check_tensor(kOp, "running", running, parts.dtype(), {parts.dim(1), 3});
  SXT_DISPATCH(
      stream, Work("cross_entropy_join").writes(running).reads(parts).flops(2.0 * parts.elements()),
      cross_entropy_join(stream, running, parts));
}

void cross_entropy_end(Stream& stream, Tensor& loss, Tensor& lse, const Tensor& running,
                       const Tensor& targets, double z_loss) {
  constexpr std::string_view kOp = "cross_entropy_end";
  check_float(kOp, "running", running);
  check_dims(kOp, "running", running, 2);
  check_tensor(kOp, "running", running, running.dtype(), {running.dim(0), 3});
  check_tensor(kOp, "loss", loss, running.dtype(), {running.dim(0)});
  check_tensor(kOp, "lse", lse, running.dtype(), {running.dim(0)});
  check_tensor(kOp, "targets", targets, DType::I32, {running.dim(0)});
  SXT_DISPATCH(stream,
               Work("cross_entropy_end")
                   .writes(loss, lse)
                   .reads(running, targets)
                   .flops(6.0 * loss.elements()),
               cross_entropy_end(stream, loss, lse, running, targets, z_loss));
}

void cross_entropy_backward(Stream& stream, Tensor& logits, const Tensor& lse,
                            const Tensor& targets, int64_t first_column, int64_t vocab,
                            const Tensor& scale, double z_loss) {
  check_chunk("cross_entropy_backward", logits, targets, first_column, vocab);
  check_tensor("cross_entropy_backward", "lse", lse, statistics_of(logits.dtype()),
               {logits.dim(0)});
  check_tensor("cross_entropy_backward", "scale", scale, DType::F64, {1});
  SXT_DISPATCH(
      stream,
      Work("cross_entropy_backward")
          .writes(logits)
          .reads(logits, lse, targets, scale)
          .flops(3.0 * logits.elements()),
      cross_entropy_backward(stream, logits, lse, targets, first_column, vocab, scale, z_loss));
}

}  // namespace sextant
