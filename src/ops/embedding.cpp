#include "ops/embedding.h"

#include "ops/check.h"

namespace sextant {
namespace {

void check(std::string_view op, const Tensor& table, const Tensor& rows, const Tensor& ids,
           Write write, const TableRows& part) {
  check_float(op, "table", table);
  check_dims(op, "table", table, 2);
  check_dims(op, "ids", ids, 1);
  check_tensor(op, "ids", ids, DType::I32, ids.shape());
  check_tensor(op, "y", rows, table.dtype(), {ids.dim(0), table.dim(1)});
  check_write(op, write);
  SXT_CHECK(part.first >= 0 && part.whole >= 0, Usage, op, ": the table begins at id ", part.first,
            " of ", part.whole, ", neither may be negative");
}

}  // namespace

SXT_BACKENDS(embedding)
SXT_BACKENDS(embedding_backward)

void embedding(Stream& stream, Tensor& y, const Tensor& table, const Tensor& ids, Write write,
               const TableRows& part) {
  check("embedding", table, y, ids, write, part);
  SXT_DISPATCH(stream, embedding(stream, y, table, ids, write, part));
}

void embedding_backward(Stream& stream, Tensor& dtable, const Tensor& dy, const Tensor& ids,
                        Write write, const TableRows& part) {
  check("embedding_backward", dtable, dy, ids, write, part);
  SXT_DISPATCH(stream, embedding_backward(stream, dtable, dy, ids, write, part));
}

}  // namespace sextant
