#pragma once
#include "ops/dispatch.h"

namespace sextant {

struct TableRows {
  int64_t first = 0, whole = 0;
};

// y[row] = table[ids[row]], or y[row] += with Write::Add. An id outside the table is Error(Data).
//   ids: [rows], i32   table: [vocab, hidden]   y: [rows, hidden]
void embedding(Stream& stream, Tensor& y, const Tensor& table, const Tensor& ids, Write write, TableRows rows = {});

// dtable[id] = sum of the rows of dy with that id, in row order; Replace clears the table first.
void embedding_backward(Stream& stream, Tensor& dtable, const Tensor& dy, const Tensor& ids,
                        Write write, TableRows rows = {});

}  // namespace sextant
