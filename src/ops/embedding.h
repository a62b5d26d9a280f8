#pragma once
#include "ops/dispatch.h"

namespace sextant {

// Which ids the rows of a table are: `first` and those after it, of ids 0 ... whole - 1. A table
// may end beyond the last id (padding). The default is a table of all ids.
struct TableRows {
  int64_t first = 0;
  int64_t whole = 0;  // 0: as many as the table has rows
};

// y[row] = table[ids[row]], or y[row] += with Write::Add. An id of another part of the table gives
// zeros, or adds nothing; so does an id outside the whole, which is reported as Error(Data).
// A trace counts one row of the table for each id, and no more than the table has.
//   ids: [rows], i32   table: [vocab or a part of it, hidden]   y: [rows, hidden]
void embedding(Stream& stream, Tensor& y, const Tensor& table, const Tensor& ids, Write write,
               const TableRows& part = {});

// dtable[id] = sum of the rows of dy with that id, in row order; Replace clears the table first.
void embedding_backward(Stream& stream, Tensor& dtable, const Tensor& dy, const Tensor& ids,
                        Write write, const TableRows& part = {});

}  // namespace sextant
