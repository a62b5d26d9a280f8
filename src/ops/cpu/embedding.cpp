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

void check_ids(std::string_view op, const Tensor& ids, const Tensor& table, const TableRows& part) {
  const int32_t* id = ids.data<int32_t>();
  const int64_t vocab = part.whole > 0 ? part.whole : table.dim(0);
  for (int64_t row = 0; row < ids.dim(0); ++row)
    SXT_CHECK(id[row] >= 0 && id[row] < vocab, Data, op, ": token id ", id[row], " at position ",
              row, " is outside the vocabulary of ", vocab);
}

// Rows whose ids lie in the part [first, first + count), ordered by (id, row), as place in the part
// << 32 | row, in the shared scratch.
std::span<uint64_t> sort_rows(Stream& stream, const Tensor& ids, int64_t first, int64_t count) {
  const int64_t rows = ids.dim(0);
  SXT_CHECK(rows * static_cast<int64_t>(sizeof(uint64_t)) <= Stream::kSharedScratch, Usage,
            "embedding_backward: ", rows, " rows at once, must be at most ",
            Stream::kSharedScratch / sizeof(uint64_t));
  const int32_t* id = ids.data<int32_t>();
  const std::span<uint64_t> order(reinterpret_cast<uint64_t*>(stream.shared_scratch().data()),
                                  static_cast<size_t>(rows));
  size_t own = 0;
  for (size_t row = 0; row < order.size(); ++row) {
    const int64_t place = id[row] - first;
    if (place >= 0 && place < count) order[own++] = static_cast<uint64_t>(place) << 32 | row;
  }
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(own));
  return order.first(own);
}

}  // namespace

void embedding(Stream& stream, Tensor& y, const Tensor& table, const Tensor& ids, Write write,
               const TableRows& part) {
  const int64_t hidden = table.dim(1);
  check_ids("embedding", ids, table, part);
  with_float(table.dtype(), [&]<class T>(T) {
    const int32_t* id = ids.data<int32_t>();
    const T* from = table.data<T>();
    T* to = y.data<T>();
    const size_t bytes = static_cast<size_t>(hidden) * sizeof(T);
    const auto take = [&](T* out, int64_t place) {
      const bool own = place >= 0 && place < table.dim(0);
      if (write == Write::Add) {
        if (own) add_row(out, from + place * hidden, hidden);
      } else if (own) {
        std::memcpy(out, from + place * hidden, bytes);
      } else {
        std::memset(out, 0, bytes);
      }
    };
    stream.team().for_pieces(ids.dim(0), rows_of_piece(hidden),
                             [&](int64_t begin, int64_t end, int) {
                               for (int64_t row = begin; row < end; ++row)
                                 take(to + row * hidden, id[row] - part.first);
                             });
  });
}

// Rows of one id follow each other in sorted order, and the piece in which they start sums them: no
// two threads write one row of the table, and the order of a sum is that of the rows.
void embedding_backward(Stream& stream, Tensor& dtable, const Tensor& dy, const Tensor& ids,
                        Write write, const TableRows& part) {
  const int64_t hidden = dtable.dim(1);
  check_ids("embedding_backward", ids, dtable, part);
  if (write == Write::Replace)
    stream.team().for_pieces(dtable.bytes(), kClearGrain, [&](int64_t begin, int64_t end, int) {
      std::memset(dtable.raw() + begin, 0, static_cast<size_t>(end - begin));
    });
  const std::span<const uint64_t> order = sort_rows(stream, ids, part.first, dtable.dim(0));
  const auto rows = static_cast<int64_t>(order.size());
  const auto place_at = [&](int64_t i) { return static_cast<int64_t>(order[size_t(i)] >> 32); };
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
            if (i > 0 && place_at(i) == place_at(i - 1)) continue;
            std::memcpy(sum, row_at(i), static_cast<size_t>(hidden) * sizeof(T));
            for (int64_t next = i + 1; next < rows && place_at(next) == place_at(i); ++next)
              add_row(sum, row_at(next), hidden);
            add_row(dtable.data<T>() + place_at(i) * hidden, sum, hidden);
          }
        });
  });
}

}  // namespace sextant::cpu
