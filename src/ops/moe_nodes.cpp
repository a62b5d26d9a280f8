#include "ops/moe_nodes.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check_i32(std::string_view op, std::string_view name, const Tensor& tensor) {
  check_dims(op, name, tensor, 2);
  check_tensor(op, name, tensor, DType::I32, tensor.shape());
}

}  // namespace

SXT_BACKENDS(moe_nodes)
SXT_BACKENDS(moe_local_choice)
SXT_BACKENDS(moe_copy_rows)
SXT_BACKENDS(moe_node_counts)

void moe_nodes(Stream& stream, Tensor& nodes, const Tensor& choice, int64_t experts) {
  check_i32("moe_nodes", "nodes", nodes);
  check_i32("moe_nodes", "choice", choice);
  SXT_CHECK(nodes.dim(0) == choice.dim(0) && experts % nodes.dim(1) == 0, Usage,
            "moe_nodes: nodes is ", nodes.shape(), " for choices ", choice.shape(), " of ", experts,
            " experts");
  SXT_DISPATCH(stream, Work("moe_nodes").writes(nodes).reads(choice),
               moe_nodes(stream, nodes, choice, experts));
}

void moe_local_choice(Stream& stream, Tensor& local, const Tensor& choice, const Range& experts) {
  check_i32("moe_local_choice", "choice", choice);
  check_tensor("moe_local_choice", "local", local, DType::I32, choice.shape());
  SXT_DISPATCH(stream, Work("moe_local_choice").writes(local).reads(choice),
               moe_local_choice(stream, local, choice, experts));
}

void moe_copy_rows(Stream& stream, Tensor& rows, const Tensor& x, const Tensor& places,
                   const Tensor& gates) {
  constexpr std::string_view kOp = "moe_copy_rows";
  check_dims(kOp, "x", x, 2);
  check_dims(kOp, "rows", rows, 2);
  check_tensor(kOp, "rows", rows, x.dtype(), {rows.dim(0), x.dim(1)});
  check_dims(kOp, "places", places, 1);
  SXT_CHECK(x.dim(0) == 0 ? places.dim(0) == 0 : places.dim(0) % x.dim(0) == 0, Usage, kOp, ": ",
            places.dim(0), " places for ", x.dim(0), " tokens, must be a multiple");
  check_tensor(kOp, "places", places, DType::I32, {places.dim(0)});
  if (gates) {
    check_float(kOp, "x", x);
    check_dims(kOp, "gates", gates, 2);
    check_tensor(kOp, "gates", gates, statistics_of(x.dtype()), {x.dim(0), gates.dim(1)});
    SXT_CHECK(gates.elements() == places.dim(0), Usage, kOp, ": gates is ", gates.shape(), " for ",
              places.dim(0), " places");
  }
  SXT_DISPATCH(stream, Work("moe_copy_rows").writes(rows).reads(x, places, gates),
               moe_copy_rows(stream, rows, x, places, gates));
}

void moe_node_counts(Stream& stream, Tensor& out, const Tensor& counts, const Range& experts) {
  check_i32("moe_node_counts", "out", out);
  check_i32("moe_node_counts", "counts", counts);
  SXT_CHECK(experts.begin >= 0 && experts.end <= counts.dim(1) &&
                out.elements() == counts.dim(0) * experts.size(),
            Usage, "moe_node_counts: ", out.shape(), " for counts ", counts.shape(), " of experts ",
            experts.begin, " to ", experts.end);
  SXT_DISPATCH(
      stream,
      Work("moe_node_counts").writes(out).reads_some(counts, out.elements() * size_of(DType::I32)),
      moe_node_counts(stream, out, counts, experts));
}

}  // namespace sextant
