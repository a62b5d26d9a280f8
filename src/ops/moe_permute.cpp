#include "ops/moe_permute.h"

#include <algorithm>

#include "ops/check.h"

namespace sextant {
namespace {

// rows: [at most tokens * chosen, hidden] and x: [tokens, hidden], of one type.
void check_rows(std::string_view op, const Tensor& rows, const Tensor& x, const Tensor& places) {
  check_float(op, "x", x);
  check_dims(op, "x", x, 2);
  check_dims(op, "places", places, 1);
  SXT_CHECK(x.dim(0) == 0 ? places.dim(0) == 0 : places.dim(0) % x.dim(0) == 0, Usage, op, ": ",
            places.dim(0), " places for ", x.dim(0), " tokens, must be a multiple");
  check_tensor(op, "places", places, DType::I32, {places.dim(0)});
  check_dims(op, "rows", rows, 2);
  check_tensor(op, "rows", rows, x.dtype(), {std::min(rows.dim(0), places.dim(0)), x.dim(1)});
}

void check_gates(std::string_view op, std::string_view name, const Tensor& gates, const Tensor& x,
                 const Tensor& places) {
  check_dims(op, name, gates, 2);
  check_tensor(op, name, gates, statistics_of(x.dtype()), {x.dim(0), gates.dim(1)});
  SXT_CHECK(gates.elements() == places.dim(0), Usage, op, ": ", name, " is ", gates.shape(),
            " for ", places.dim(0), " places");
}

void check_counts(std::string_view op, const Tensor& counts, const Range& experts) {
  check_dims(op, "counts", counts, 2);
  check_tensor(op, "counts", counts, DType::I32, counts.shape());
  SXT_CHECK(experts.begin >= 0 && experts.begin <= experts.end && experts.end <= counts.dim(1),
            Usage, op, ": experts ", experts.begin, " to ", experts.end, " of ", counts.dim(1));
}

void check_grouped(std::string_view op, const Tensor& to, const Tensor& from, const Tensor& counts,
                   const Range& experts) {
  check_counts(op, counts, experts);
  check_float(op, "rows", from);
  check_dims(op, "rows", from, 2);
  check_tensor(op, "output", to, from.dtype(), from.shape());
}

}  // namespace

SXT_BACKENDS(moe_places)
SXT_BACKENDS(moe_permute)
SXT_BACKENDS(moe_permute_backward)
SXT_BACKENDS(moe_combine)
SXT_BACKENDS(moe_combine_backward)
SXT_BACKENDS(moe_offsets)
SXT_BACKENDS(moe_group)
SXT_BACKENDS(moe_ungroup)

void moe_places(Stream& stream, Tensor& places, const Tensor& choice, const Tensor& counts) {
  check_dims("moe_places", "choice", choice, 2);
  check_tensor("moe_places", "choice", choice, DType::I32, choice.shape());
  check_dims("moe_places", "counts", counts, 1);
  check_tensor("moe_places", "counts", counts, DType::I32, counts.shape());
  check_tensor("moe_places", "places", places, DType::I32, {choice.elements()});
  SXT_DISPATCH(stream, Work("moe_places").writes(places).reads(choice, counts),
               moe_places(stream, places, choice, counts));
}

void moe_permute(Stream& stream, Tensor& rows, const Tensor& x, const Tensor& places) {
  check_rows("moe_permute", rows, x, places);
  SXT_DISPATCH(stream, Work("moe_permute").writes(rows).reads(x, places),
               moe_permute(stream, rows, x, places));
}

void moe_permute_backward(Stream& stream, Tensor& dx, const Tensor& drows, const Tensor& places) {
  check_rows("moe_permute_backward", drows, dx, places);
  SXT_DISPATCH(
      stream,
      Work("moe_permute_backward").writes(dx).reads(drows, places).flops(1.0 * drows.elements()),
      moe_permute_backward(stream, dx, drows, places));
}

void moe_combine(Stream& stream, Tensor& y, const Tensor& rows, const Tensor& gates,
                 const Tensor& places) {
  check_rows("moe_combine", rows, y, places);
  check_gates("moe_combine", "gates", gates, y, places);
  SXT_DISPATCH(
      stream, Work("moe_combine").writes(y).reads(rows, gates, places).flops(2.0 * rows.elements()),
      moe_combine(stream, y, rows, gates, places));
}

void moe_combine_backward(Stream& stream, Tensor& drows, Tensor& dgates, const Tensor& dy,
                          const Tensor& rows, const Tensor& gates, const Tensor& places) {
  check_rows("moe_combine_backward", rows, dy, places);
  check_tensor("moe_combine_backward", "drows", drows, rows.dtype(), rows.shape());
  check_gates("moe_combine_backward", "gates", gates, dy, places);
  check_tensor("moe_combine_backward", "dgates", dgates, gates.dtype(), gates.shape());
  SXT_DISPATCH(stream,
               Work("moe_combine_backward")
                   .writes(drows, dgates)
                   .reads(dy, rows, gates, places)
                   .flops(3.0 * rows.elements()),
               moe_combine_backward(stream, drows, dgates, dy, rows, gates, places));
}

void moe_offsets(Stream& stream, Tensor& offsets, const Tensor& counts, const Range& experts) {
  check_counts("moe_offsets", counts, experts);
  check_tensor("moe_offsets", "offsets", offsets, DType::I32, {experts.size() + 1});
  SXT_DISPATCH(stream,
               Work("moe_offsets")
                   .writes(offsets)
                   .reads_some(counts, counts.dim(0) * experts.size() * size_of(DType::I32)),
               moe_offsets(stream, offsets, counts, experts));
}

void moe_group(Stream& stream, Tensor& by_expert, const Tensor& by_source, const Tensor& counts,
               const Range& experts) {
  check_grouped("moe_group", by_expert, by_source, counts, experts);
  SXT_DISPATCH(stream,
               Work("moe_group")
                   .writes(by_expert)
                   .reads(by_source)
                   .reads_some(counts, counts.dim(0) * experts.size() * size_of(DType::I32)),
               moe_group(stream, by_expert, by_source, counts, experts));
}

void moe_ungroup(Stream& stream, Tensor& by_source, const Tensor& by_expert, const Tensor& counts,
                 const Range& experts) {
  check_grouped("moe_ungroup", by_source, by_expert, counts, experts);
  SXT_DISPATCH(stream,
               Work("moe_ungroup")
                   .writes(by_source)
                   .reads(by_expert)
                   .reads_some(counts, counts.dim(0) * experts.size() * size_of(DType::I32)),
               moe_ungroup(stream, by_source, by_expert, counts, experts));
}

}  // namespace sextant
