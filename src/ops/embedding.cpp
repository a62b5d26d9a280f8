#include "ops/embedding.h"

#include <algorithm>

#include "ops/check.h"

namespace sextant {
namespace {

// `table` is the table or its gradient, `rows` are those of y or of its gradient.
void check(std::string_view op, const Tensor& table, const Tensor& rows, const Tensor& ids,
           Write write, const TableRows& part) {
  check_float(op, "table", table);
  check_dims(op, "table", table, 2);
  check_dims(op, "ids", ids, 1);
  check_tensor(op, "ids", ids, DType::I32, ids.shape());
  check_float(op, "y", rows);
  check_tensor(op, "y", rows, rows.dtype(), {ids.dim(0), table.dim(1)});
  check_write(op, write);
  SXT_CHECK(part.first >= 0 && part.whole >= 0, Usage, op, ": the table begins at id ", part.first,
            " of ", part.whole, ", neither may be negative");
}

// Rows are sorted by their ids, and summed one by one, in scratch.
void check_scratch(const Tensor& dtable, const Tensor& ids) {
  constexpr int64_t kMostRows = Stream::kSharedScratch / static_cast<int64_t>(sizeof(uint64_t));
  SXT_CHECK(ids.dim(0) <= kMostRows, Usage, "embedding_backward: ", ids.dim(0),
            " rows at once, must be at most ", kMostRows);
  SXT_CHECK(dtable.dim(1) * size_of(statistics_of(dtable.dtype())) <= Stream::kThreadScratch, Usage,
            "embedding_backward: rows of ", dtable.dim(1), " elements do not fit in the scratch");
}

// Bytes of the table that are touched, at most: as many rows as there are ids, all of them own.
int64_t touched(const Tensor& table, const Tensor& rows) {
  return std::min(table.bytes(), rows.bytes());
}

Work work_forward(const Tensor& y, const Tensor& table, const Tensor& ids, Write write) {
  Work work("embedding");
  work.writes(y).reads_some(table, touched(table, y)).reads(ids);
  if (write == Write::Add) work.reads(y).flops(1.0 * y.elements());
  return work;
}

Work work_backward(const Tensor& dtable, const Tensor& dy, const Tensor& ids, Write write) {
  Work work("embedding_backward");
  if (write == Write::Add)
    work.writes_some(dtable, touched(dtable, dy)).reads_some(dtable, touched(dtable, dy));
  else
    work.writes(dtable);
  return work.reads(dy, ids).flops(1.0 * dy.elements());
}

}  // namespace

SXT_BACKENDS(embedding)
SXT_BACKENDS(embedding_backward)

void embedding(Stream& stream, Tensor& y, const Tensor& table, const Tensor& ids, Write write,
               const TableRows& part) {
  check("embedding", table, y, ids, write, part);
  check_tensor("embedding", "y", y, table.dtype(), y.shape());
  SXT_DISPATCH(stream, work_forward(y, table, ids, write),
               embedding(stream, y, table, ids, write, part));
}

void embedding_backward(Stream& stream, Tensor& dtable, const Tensor& dy, const Tensor& ids,
                        Write write, const TableRows& part) {
  check("embedding_backward", dtable, dy, ids, write, part);
  check_gradient("embedding_backward", "dtable", dtable, dy.dtype(), dtable.shape());
  check_scratch(dtable, ids);
  SXT_DISPATCH(stream, work_backward(dtable, dy, ids, write),
               embedding_backward(stream, dtable, dy, ids, write, part));
}

}  // namespace sextant
