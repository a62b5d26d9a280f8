#pragma once
#include "ops/dispatch.h"

namespace sextant {

// The ids of a table's rows: first, first + 1, ... of all ids 0 ... whole - 1. A table may extend
// beyond the last id (padding). The default is a table of all ids.
struct TableRows {
  int64_t first = 0;
  int64_t whole = 0;  // 0: the number of rows of the table
};

// y[row] = table[ids[row]], or y[row] += with Write::Add. An id outside this part of the table
// counts as a row of zeros; an id outside the whole is also reported as Error(Data). A trace counts
// one table row per id, at most all rows.
//   ids: [rows], i32   table: [vocab or a part of it, hidden]   y: [rows, hidden]
void embedding(Stream& stream, Tensor& y, const Tensor& table, const Tensor& ids, Write write,
               const TableRows& part = {});

// dtable[id] = sum of the rows of dy with that id, in row order; Replace clears the table first.
void embedding_backward(Stream& stream, Tensor& dtable, const Tensor& dy, const Tensor& ids,
                        Write write, const TableRows& part = {});

}  // namespace sextant
