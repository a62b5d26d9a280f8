#include "ops/embedding.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/packs.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kElements = 16384;  // of one piece of work
constexpr int64_t kClearGrain = int64_t{1} << 20;

int64_t rows_of_piece(int64_t hidden) {
  return std::max<int64_t>(1, kElements / std::max<int64_t>(1, hidden));
}

void check_ids(std::string_view op, const Tensor& ids, int64_t vocab) {
  const int32_t* id = ids.data<int32_t>();
  for (int64_t row = 0; row < ids.dim(0); ++row)
    SXT_CHECK(id[row] >= 0 && id[row] < vocab, Data, op, ": token id ", id[row], " at position ",
              row, " is outside the vocabulary of ", vocab);
}

template <class T>
void add_row(T* to, const T* from, int64_t hidden) {
  for_packs<T>(0, hidden, [&](auto at) { at.put(to, at(static_cast<const T*>(to)) + at(from)); });
}

// Rows ordered by (id, row), as id << 32 | row, in the shared scratch.
std::span<uint64_t> sort_rows(Stream& stream, const Tensor& ids) {
  const int64_t rows = ids.dim(0);
  SXT_CHECK(rows * static_cast<int64_t>(sizeof(uint64_t)) <= Stream::kSharedScratch, Usage,
            "embedding_backward: ", rows, " rows at once, must be at most ",
            Stream::kSharedScratch / sizeof(uint64_t));
  const int32_t* id = ids.data<int32_t>();
  const std::span<uint64_t> order(reinterpret_cast<uint64_t*>(stream.shared_scratch().data()),
                                  static_cast<size_t>(rows));
  for (size_t row = 0; row < order.size(); ++row)
    order[row] = static_cast<uint64_t>(id[row]) << 32 | row;
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

void embedding(Stream& stream, Tensor& y, const Tensor& table, const Tensor& ids, Write write, TableRows rows) {
  const int64_t hidden = table.dim(1);
  check_ids("embedding", ids, rows.whole ? rows.whole : table.dim(0));
  with_float(table.dtype(), [&]<class T>(T) {
    const int32_t* id = ids.data<int32_t>();
    const T* from = table.data<T>();
    T* to = y.data<T>();
    stream.team().for_pieces(ids.dim(0), rows_of_piece(hidden),
                             [&](int64_t begin, int64_t end, int) {
                               for (int64_t row = begin; row < end; ++row) {
                                 const int64_t own = id[row] - rows.first;
                                 if (own < 0 || own >= table.dim(0)) {
                                   if (write == Write::Replace) std::fill_n(to + row * hidden, hidden, T{0});
                                   continue;
                                 }
                                 if (write == Write::Add) {
                                   add_row(to + row * hidden, from + own * hidden, hidden);
                                 } else {
                                   std::memcpy(to + row * hidden, from + own * hidden,
                                               static_cast<size_t>(hidden) * sizeof(T));
                                 }
                               }
                             });
  });
}

// Rows of one id follow each other in sorted order, and the piece in which they start sums them: no
// two threads write one row of the table, and the order of a sum is that of the rows.
void embedding_backward(Stream& stream, Tensor& dtable, const Tensor& dy, const Tensor& ids,
                        Write write, TableRows part) {
  const int64_t hidden = dtable.dim(1);
  check_ids("embedding_backward", ids, part.whole ? part.whole : dtable.dim(0));
  if (write == Write::Replace)
    stream.team().for_pieces(dtable.bytes(), kClearGrain, [&](int64_t begin, int64_t end, int) {
      std::memset(dtable.raw() + begin, 0, static_cast<size_t>(end - begin));
    });
  const std::span<const uint64_t> order = sort_rows(stream, ids);
  const auto rows = static_cast<int64_t>(order.size());
  const auto id_at = [&](int64_t i) { return static_cast<int64_t>(order[size_t(i)] >> 32); };
  with_float(dtable.dtype(), [&]<class T>(T) {
    SXT_CHECK(hidden * static_cast<int64_t>(sizeof(T)) <= Stream::kThreadScratch, Usage,
              "embedding_backward: rows of ", hidden, " elements do not fit in the scratch");
    const auto row_at = [&](int64_t i) {
      return dy.data<T>() + static_cast<int64_t>(order[size_t(i)] & 0xffffffff) * hidden;
    };
    stream.team().for_pieces(
        rows, rows_of_piece(hidden), [&](int64_t begin, int64_t end, int thread) {
          T* sum = reinterpret_cast<T*>(stream.thread_scratch(thread).data());
          for (int64_t i = begin; i < end; ++i) {
            if (i > 0 && id_at(i) == id_at(i - 1)) continue;
            if (id_at(i) < part.first || id_at(i) >= part.first + dtable.dim(0)) continue;
            std::memcpy(sum, row_at(i), static_cast<size_t>(hidden) * sizeof(T));
            for (int64_t next = i + 1; next < rows && id_at(next) == id_at(i); ++next)
              add_row(sum, row_at(next), hidden);
            add_row(dtable.data<T>() + (id_at(i) - part.first) * hidden, sum, hidden);
          }
        });
  });
}

}  // namespace sextant::cpu
