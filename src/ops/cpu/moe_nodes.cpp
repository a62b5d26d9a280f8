#include "ops/moe_nodes.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/packs.h"
#include "ops/fault_texts.h"
#include "ops/moe_capacity.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kElements = 16384;  // of one piece of work

int64_t rows_of_piece(int64_t width) {
  return std::max<int64_t>(1, kElements / std::max<int64_t>(1, width));
}

}  // namespace

void moe_nodes(Stream& stream, Tensor& nodes, const Tensor& choice, int64_t experts) {
  const int64_t count = nodes.dim(1), chosen = choice.dim(1), each = experts / count;
  int32_t* to = nodes.data<int32_t>();
  std::fill_n(to, nodes.elements(), kDropped);
  for (int64_t i = 0; i < choice.elements(); ++i) {
    const int32_t expert = choice.data<int32_t>()[i];
    if (expert == kDropped) continue;
    if (expert < 0 || expert >= experts) {
      stream.report({Fault::Internal, "moe_nodes", kBadExpertOfPair, {expert, i, experts}});
      continue;
    }
    const int64_t node = expert / each;
    to[i / chosen * count + node] = static_cast<int32_t>(node);
  }
}

void moe_local_choice(Stream&, Tensor& local, const Tensor& choice, const Range& experts) {
  const int32_t* from = choice.data<int32_t>();
  int32_t* to = local.data<int32_t>();
  for (int64_t i = 0; i < choice.elements(); ++i)
    to[i] = from[i] >= experts.begin && from[i] < experts.end
                ? from[i] - static_cast<int32_t>(experts.begin)
                : kDropped;
}

void moe_copy_rows(Stream& stream, Tensor& rows, const Tensor& x, const Tensor& places,
                   const Tensor& gates) {
  const int64_t tokens = x.dim(0), width = x.dim(1), count = rows.dim(0);
  const int64_t copies = tokens == 0 ? 0 : places.dim(0) / tokens;
  const int32_t* place = places.data<int32_t>();
  for (int64_t i = 0; i < places.dim(0); ++i)
    if (place[i] != kDropped && (place[i] < 0 || place[i] >= count))
      return stream.report({Fault::Internal, "moe_copy_rows", kBadPlace, {place[i], i, count}});
  const auto bytes = static_cast<size_t>(width * size_of(x.dtype()));
  const auto for_rows = [&](auto&& f) {
    stream.team().for_pieces(tokens, rows_of_piece(width * copies),
                             [&](int64_t begin, int64_t end, int) {
                               for (int64_t i = begin * copies; i < end * copies; ++i)
                                 if (place[i] != kDropped) f(i, i / copies, int64_t{place[i]});
                             });
  };
  if (!gates) {
    for_rows([&](int64_t, int64_t token, int64_t row) {
      std::memcpy(rows.raw() + static_cast<size_t>(row) * bytes,
                  x.raw() + static_cast<size_t>(token) * bytes, bytes);
    });
    return;
  }
  with_float(x.dtype(), [&]<class T>(T) {
    using F = Compute<T>;
    for_rows([&](int64_t pair, int64_t token, int64_t row) {
      const F gate = gates.data<F>()[pair];
      const T* from = x.data<T>() + token * width;
      T* to = rows.data<T>() + row * width;
      for_packs<F>(0, width, [&](auto at) { at.put(to, gate * at(from)); });
    });
  });
}

void moe_node_counts(Stream&, Tensor& out, const Tensor& counts, const Range& experts) {
  const int64_t ranks = out.dim(0), nodes = counts.dim(0) / ranks, all = counts.dim(1);
  int32_t* to = out.data<int32_t>();
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (int64_t expert = experts.begin; expert < experts.end; ++expert)
      for (int64_t node = 0; node < nodes; ++node)
        *to++ = counts.data<int32_t>()[(node * ranks + rank) * all + expert];
}

}  // namespace sextant::cpu
