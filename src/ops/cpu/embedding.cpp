#include "ops/embedding.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/packs.h"
#include "ops/fault_texts.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kElements = 16384;  // of one piece of work
constexpr int64_t kClearGrain = int64_t{1} << 20;

int64_t rows_of_piece(int64_t hidden) {
  return std::max<int64_t>(1, kElements / std::max<int64_t>(1, hidden));
}

// Ids of which a table holds a part. One outside of all ids is in no part.
struct Ids {
  Ids(const Tensor& ids, const Tensor& table, const TableRows& part)
      : id(ids.data<int32_t>()),
        rows(ids.dim(0)),
        vocab(part.whole > 0 ? part.whole : table.dim(0)),
        first(part.first),
        end(std::min(vocab, first + table.dim(0))) {}

  bool is_own(int64_t row) const { return id[row] >= first && id[row] < end; }
  int64_t place(int64_t row) const { return id[row] - first; }  // in the part

  void report_bad(Stream& stream, const char* op) const {
    for (int64_t row = 0; row < rows; ++row)
      if (id[row] < 0 || id[row] >= vocab)
        return stream.report({Fault::Data, op, kBadTokenId, {id[row], row, vocab}});
  }

  const int32_t* id;
  int64_t rows, vocab, first, end;
};

// Rows whose ids lie in the part, ordered by (id, row), as place in the part << 32 | row, in the
// shared scratch.
std::span<uint64_t> sort_rows(Stream& stream, const Ids& ids) {
  const int64_t rows = ids.rows;
  const std::span<uint64_t> order(reinterpret_cast<uint64_t*>(stream.shared_scratch().data()),
                                  static_cast<size_t>(rows));
  size_t own = 0;
  for (int64_t row = 0; row < rows; ++row)
    if (ids.is_own(row))
      order[own++] = static_cast<uint64_t>(ids.place(row)) << 32 | static_cast<uint64_t>(row);
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(own));
  return order.first(own);
}

}  // namespace

void embedding(Stream& stream, Tensor& y, const Tensor& table, const Tensor& ids, Write write,
               const TableRows& part) {
  const int64_t hidden = table.dim(1);
  const Ids all(ids, table, part);
  all.report_bad(stream, "embedding");
  with_float(table.dtype(), [&]<class T>(T) {
    const T* from = table.data<T>();
    T* to = y.data<T>();
    const size_t bytes = static_cast<size_t>(hidden) * sizeof(T);
    const auto take = [&](T* out, int64_t row) {
      const bool own = all.is_own(row);
      if (write == Write::Add) {
        if (own) add_row(out, from + all.place(row) * hidden, hidden);
      } else if (own) {
        std::memcpy(out, from + all.place(row) * hidden, bytes);
      } else {
        std::memset(out, 0, bytes);
      }
    };
    stream.team().for_pieces(all.rows, rows_of_piece(hidden), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) take(to + row * hidden, row);
    });
  });
}

// Rows of one id follow each other in sorted order, and the piece in which they start sums them: no
// two threads write one row of the table, and the order of a sum is that of the rows.
void embedding_backward(Stream& stream, Tensor& dtable, const Tensor& dy, const Tensor& ids,
                        Write write, const TableRows& part) {
  const int64_t hidden = dtable.dim(1);
  const Ids all(ids, dtable, part);
  all.report_bad(stream, "embedding_backward");
  if (write == Write::Replace)
    stream.team().for_pieces(dtable.bytes(), kClearGrain, [&](int64_t begin, int64_t end, int) {
      std::memset(dtable.raw() + begin, 0, static_cast<size_t>(end - begin));
    });
  const std::span<const uint64_t> order = sort_rows(stream, all);
  const auto rows = static_cast<int64_t>(order.size());
  const auto place_at = [&](int64_t i) { return static_cast<int64_t>(order[size_t(i)] >> 32); };
  const auto sum_into = [&]<class G, class T>(G* out, const T* from) {
    using F = Compute<T>;
    const auto row_at = [&](int64_t i) {
      return from + static_cast<int64_t>(order[size_t(i)] & 0xffffffff) * hidden;
    };
    stream.team().for_pieces(
        rows, rows_of_piece(hidden), [&](int64_t begin, int64_t end, int thread) {
          F* sum = reinterpret_cast<F*>(stream.thread_scratch(thread).data());
          for (int64_t i = begin; i < end; ++i) {
            if (i > 0 && place_at(i) == place_at(i - 1)) continue;
            for_packs<F>(0, hidden, [&](auto at) { at.put(sum, at(row_at(i))); });
            for (int64_t next = i + 1; next < rows && place_at(next) == place_at(i); ++next)
              add_row(sum, row_at(next), hidden);
            add_row(out + place_at(i) * hidden, sum, hidden);
          }
        });
  };
  with_float(dy.dtype(), [&]<class T>(T) {
    with_either<T>(dtable.dtype(), [&]<class G>(G) { sum_into(dtable.data<G>(), dy.data<T>()); });
  });
}

}  // namespace sextant::cpu
