#include "ops/moe_permute.h"

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

// Places of pairs. Ours are valid or kDropped; any other is reported and read as row 0.
class Places {
 public:
  Places(Stream& stream, const char* op, const Tensor& places, int64_t tokens)
      : places_(places.data<int32_t>()),
        rows_(places.dim(0)),
        chosen_(tokens == 0 ? 0 : rows_ / tokens) {
    for (int64_t i = 0; i < rows_; ++i)
      if (!is_valid(i)) {
        stream.report({Fault::Internal, op, kBadPlace, {places_[i], i, rows_}});
        return;
      }
  }
  int64_t chosen() const { return chosen_; }
  // kDropped, or a row.
  int64_t at(int64_t token, int64_t j) const {
    const int64_t pair = token * chosen_ + j;
    return is_valid(pair) ? places_[pair] : 0;
  }

 private:
  bool is_valid(int64_t pair) const {
    return places_[pair] == kDropped || (places_[pair] >= 0 && places_[pair] < rows_);
  }

  const int32_t* places_;
  int64_t rows_, chosen_;
};

template <class F>
void for_tokens(Stream& stream, const Tensor& x, const Places& places, F&& f) {
  stream.team().for_pieces(x.dim(0), rows_of_piece(x.dim(1) * places.chosen()),
                           [&](int64_t begin, int64_t end, int) {
                             for (int64_t token = begin; token < end; ++token) f(token);
                           });
}

// term(j, row) summed over the pairs of a token that were not dropped, in ascending j.
template <class V, class F>
V sum_of_pairs(const Places& place, int64_t token, F&& term) {
  V sum{};
  bool is_first = true;
  for (int64_t j = 0; j < place.chosen(); ++j) {
    const int64_t row = place.at(token, j);
    if (row == kDropped) continue;
    if (is_first)
      sum = term(j, row);
    else
      sum += term(j, row);
    is_first = false;
  }
  return sum;
}

// Rows before each (source, expert) in either order, with counts as sources x experts. Negative
// counts are read as none.
class Blocks {
 public:
  Blocks(const Tensor& counts, const Range& experts)
      : counts_(counts.data<int32_t>()),
        sources_(counts.dim(0)),
        stride_(counts.dim(1)),
        experts_(experts) {}
  int64_t count(int64_t source, int64_t expert) const {
    return std::max(0, counts_[source * stride_ + experts_.begin + expert]);
  }
  // f(row by source, row by expert, rows) for each block, within `most` rows.
  template <class F>
  void for_each(int64_t most, F&& f) const {
    int64_t by_source = 0;
    for (int64_t source = 0; source < sources_; ++source)
      for (int64_t expert = 0; expert < experts_.size(); ++expert) {
        int64_t by_expert = 0;
        for (int64_t e = 0; e < expert; ++e) by_expert += rows_of(e);
        for (int64_t s = 0; s < source; ++s) by_expert += count(s, expert);
        const int64_t rows = std::min(count(source, expert), most - std::max(by_source, by_expert));
        if (rows > 0) f(by_source, by_expert, rows);
        by_source += count(source, expert);
      }
  }
  int64_t rows_of(int64_t expert) const {
    int64_t rows = 0;
    for (int64_t source = 0; source < sources_; ++source) rows += count(source, expert);
    return rows;
  }

 private:
  const int32_t* counts_;
  int64_t sources_, stride_;
  Range experts_;
};

}  // namespace

void moe_places(Stream& stream, Tensor& places, const Tensor& choice, const Tensor& counts) {
  const int64_t experts = counts.dim(0), pairs = choice.elements();
  const int32_t* expert = choice.data<int32_t>();
  int32_t* place = places.data<int32_t>();
  // The next place of each expert.
  int32_t* next = reinterpret_cast<int32_t*>(stream.shared_scratch().data());
  SXT_CHECK(experts * int64_t{sizeof(int32_t)} <= Stream::kSharedScratch, Usage,
            "moe_places: ", experts, " experts do not fit into the scratch");
  int64_t sum = 0;
  for (int64_t e = 0; e < experts; ++e) {
    next[e] = static_cast<int32_t>(sum);
    sum += counts.data<int32_t>()[e];
  }
  for (int64_t i = 0; i < pairs; ++i) {
    if (expert[i] == kDropped) {
      place[i] = kDropped;
      continue;
    }
    const bool is_valid = expert[i] >= 0 && expert[i] < experts;
    if (!is_valid)
      stream.report({Fault::Internal, "moe_places", kBadExpertOfPair, {expert[i], i, experts}});
    place[i] = is_valid ? next[expert[i]]++ : 0;
  }
}

void moe_permute(Stream& stream, Tensor& rows, const Tensor& x, const Tensor& places) {
  const Places place(stream, "moe_permute", places, x.dim(0));
  const auto bytes = static_cast<size_t>(x.dim(1) * size_of(x.dtype()));
  for_tokens(stream, x, place, [&](int64_t token) {
    for (int64_t j = 0; j < place.chosen(); ++j)
      if (const int64_t row = place.at(token, j); row != kDropped)
        std::memcpy(rows.raw() + static_cast<size_t>(row) * bytes,
                    x.raw() + static_cast<size_t>(token) * bytes, bytes);
  });
}

void moe_permute_backward(Stream& stream, Tensor& dx, const Tensor& drows, const Tensor& places) {
  const int64_t width = dx.dim(1);
  const Places place(stream, "moe_permute_backward", places, dx.dim(0));
  with_float(dx.dtype(), [&]<class T>(T) {
    const T* from = drows.data<T>();
    for_tokens(stream, dx, place, [&](int64_t token) {
      T* to = dx.data<T>() + token * width;
      for_packs<Compute<T>>(0, width, [&](auto at) {
        at.put(to, sum_of_pairs<VectorOf<T>>(place, token, [&](int64_t, int64_t row) {
                 return VectorOf<T>(at(from + row * width));
               }));
      });
    });
  });
}

void moe_combine(Stream& stream, Tensor& y, const Tensor& rows, const Tensor& gates,
                 const Tensor& places) {
  const int64_t width = y.dim(1);
  const Places place(stream, "moe_combine", places, y.dim(0));
  with_float(y.dtype(), [&]<class T>(T) {
    const T* from = rows.data<T>();
    for_tokens(stream, y, place, [&](int64_t token) {
      const Compute<T>* gate = gates.data<Compute<T>>() + token * place.chosen();
      T* to = y.data<T>() + token * width;
      for_packs<Compute<T>>(0, width, [&](auto at) {
        at.put(to, sum_of_pairs<VectorOf<T>>(place, token, [&](int64_t j, int64_t row) {
                 return VectorOf<T>(gate[j] * at(from + row * width));
               }));
      });
    });
  });
}

// The gradient of a gate is read before the row is overwritten: drows may be rows.
void moe_combine_backward(Stream& stream, Tensor& drows, Tensor& dgates, const Tensor& dy,
                          const Tensor& rows, const Tensor& gates, const Tensor& places) {
  const int64_t width = dy.dim(1);
  const Places place(stream, "moe_combine_backward", places, dy.dim(0));
  with_float(dy.dtype(), [&]<class T>(T) {
    using F = Compute<T>;
    for_tokens(stream, dy, place, [&](int64_t token) {
      const T* above = dy.data<T>() + token * width;
      for (int64_t j = 0; j < place.chosen(); ++j) {
        const int64_t pair = token * place.chosen() + j, row = place.at(token, j);
        if (row == kDropped) {
          dgates.data<F>()[pair] = 0;
          continue;
        }
        const T* from = rows.data<T>() + row * width;
        const F gate = gates.data<F>()[pair];
        dgates.data<F>()[pair] = sum_packs<F>(width, [&](auto at) { return at(above) * at(from); });
        T* to = drows.data<T>() + row * width;
        for_packs<F>(0, width, [&](auto at) { at.put(to, gate * at(above)); });
      }
    });
  });
}

void moe_offsets(Stream&, Tensor& offsets, const Tensor& counts, const Range& experts) {
  const Blocks blocks(counts, experts);
  int32_t* out = offsets.data<int32_t>();
  out[0] = 0;
  for (int64_t e = 0; e < experts.size(); ++e)
    out[e + 1] = static_cast<int32_t>(out[e] + blocks.rows_of(e));
}

void moe_group(Stream&, Tensor& by_expert, const Tensor& by_source, const Tensor& counts,
               const Range& experts) {
  const auto row = static_cast<size_t>(by_source.dim(1) * size_of(by_source.dtype()));
  Blocks(counts, experts).for_each(by_source.dim(0), [&](int64_t from, int64_t to, int64_t rows) {
    std::memcpy(by_expert.raw() + static_cast<size_t>(to) * row,
                by_source.raw() + static_cast<size_t>(from) * row, static_cast<size_t>(rows) * row);
  });
}

void moe_ungroup(Stream&, Tensor& by_source, const Tensor& by_expert, const Tensor& counts,
                 const Range& experts) {
  const auto row = static_cast<size_t>(by_source.dim(1) * size_of(by_source.dtype()));
  Blocks(counts, experts).for_each(by_source.dim(0), [&](int64_t to, int64_t from, int64_t rows) {
    std::memcpy(by_source.raw() + static_cast<size_t>(to) * row,
                by_expert.raw() + static_cast<size_t>(from) * row, static_cast<size_t>(rows) * row);
  });
}

}  // namespace sextant::cpu
