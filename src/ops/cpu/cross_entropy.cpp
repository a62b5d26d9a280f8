// The largest logit and the sum of exponentials run along in blocks of kVocabBlock columns that are
// aligned to the vocabulary: a block's values come from its columns alone, and a block joins the
// running ones by max and two factors. So it does not matter how many blocks one call brings.
#include "ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/packs.h"
#include "ops/fault_texts.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kElements = 8192;  // of one piece of work
constexpr int64_t kJoinedTokens = 512;
// The largest of no logits.
template <class T>
constexpr T kNothing = -std::numeric_limits<T>::infinity();

int64_t rows_of_piece(int64_t width) {
  return std::max<int64_t>(1, kElements / std::max<int64_t>(1, width));
}

// Columns of the chunk that are no padding.
int64_t real_width(const Tensor& logits, int64_t first_column, int64_t vocab) {
  return std::clamp<int64_t>(vocab - first_column, 0, logits.dim(1));
}

bool counts(int32_t target, int64_t vocab) {
  return target >= 0 && target < vocab;
}

void report_bad_targets(Stream& stream, const char* op, const Tensor& targets, int64_t vocab) {
  const int32_t* target = targets.data<int32_t>();
  for (int64_t row = 0; row < targets.dim(0); ++row)
    if (target[row] != -1 && !counts(target[row], vocab))
      return stream.report({Fault::Data, op, kBadTarget, {target[row], row, vocab}});
}

template <class T, class F = Compute<T>>
F largest(const T* x, int64_t count) {
  F out = value_of(x[0]);
  if (count >= kLanes<VectorOf<T>>) {
    VectorOf<T> lanes = load<VectorOf<T>>(x);
    int64_t i = 0;
    for (; i + kLanes<VectorOf<T>> <= count; i += kLanes<VectorOf<T>>) {
      const VectorOf<T> next = load<VectorOf<T>>(x + i);
      lanes = next > lanes ? next : lanes;
    }
    for (int64_t lane = 0; lane < kLanes<VectorOf<T>>; ++lane) out = std::max(out, lanes[lane]);
    for (; i < count; ++i) out = std::max(out, value_of(x[i]));
    return out;
  }
  for (int64_t i = 1; i < count; ++i) out = std::max(out, value_of(x[i]));
  return out;
}

template <class T>
T exp_of(T x) {
  return vexp(VectorOf<T>{} + x)[0];
}

template <class T>
void join(T& max, T& sum, T block_max, T block_sum) {
  if (block_max > max) {
    sum = sum * exp_of(max - block_max) + block_sum;
    max = block_max;
  } else {
    sum += block_sum * exp_of(block_max - max);
  }
}

// Logits of -infinity add nothing, even when they fill a block; a NaN makes the sum NaN.
template <class T, class F = Compute<T>>
void join_block(F& max, F& sum, const T* x, int64_t count) {
  const F block_max = std::max(largest(x, count), std::numeric_limits<F>::lowest());
  join(max, sum, block_max, sum_packs<F>(count, [&](auto at) { return vexp(at(x) - block_max); }));
}

}  // namespace

void cross_entropy_begin(Stream&, Tensor& running) {
  with_statistics(running.dtype(), [&]<class T>(T) {
    T* values = running.data<T>();
    for (int64_t row = 0; row < running.dim(0); ++row) {
      values[row * 3] = kNothing<T>;
      values[row * 3 + 1] = 0;
      values[row * 3 + 2] = 0;
    }
  });
}

void cross_entropy_chunk(Stream& stream, Tensor& running, const Tensor& logits,
                         const Tensor& targets, int64_t first_column, int64_t vocab) {
  report_bad_targets(stream, "cross_entropy_chunk", targets, vocab);
  const int64_t width = logits.dim(1), real = real_width(logits, first_column, vocab);
  const int32_t* target = targets.data<int32_t>();
  with_float(logits.dtype(), [&]<class T>(T) {
    const int64_t grain = rows_of_piece(width);
    stream.team().for_pieces(logits.dim(0), grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        if (!counts(target[row], vocab)) continue;
        const T* x = logits.data<T>() + row * width;
        Compute<T>* values = running.data<Compute<T>>() + row * 3;
        for (int64_t column = 0; column < real;) {
          const int64_t in_block = (first_column + column) % kVocabBlock;
          const int64_t count = std::min(kVocabBlock - in_block, real - column);
          join_block(values[0], values[1], x + column, count);
          column += count;
        }
        const int64_t own = target[row] - first_column;
        if (own >= 0 && own < real) values[2] = value_of(x[own]);
      }
    });
  });
}

// A rank that saw no column still has its first values, -infinity, 0 and 0; with another sum it
// saw a NaN. The target lies with one rank at most: elsewhere its logit is 0.
void cross_entropy_join(Stream& stream, Tensor& running, const Tensor& parts) {
  const int64_t ranks = parts.dim(0), tokens = parts.dim(1);
  with_statistics(parts.dtype(), [&]<class T>(T) {
    stream.team().for_pieces(tokens, kJoinedTokens, [&](int64_t begin, int64_t end, int) {
      for (int64_t token = begin; token < end; ++token) {
        T max = kNothing<T>, sum = 0, own = 0;
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const T* part = parts.data<T>() + (rank * tokens + token) * 3;
          if (part[0] == kNothing<T> && part[1] == 0) continue;
          join(max, sum, part[0], part[1]);
          own += part[2];
        }
        T* values = running.data<T>() + token * 3;
        values[0] = max, values[1] = sum, values[2] = own;
      }
    });
  });
}

// A token of which no chunk counted a column has a bad target, which was reported.
void cross_entropy_end(Stream&, Tensor& loss, Tensor& lse, const Tensor& running,
                       const Tensor& targets, double z_loss) {
  const int32_t* target = targets.data<int32_t>();
  with_statistics(running.dtype(), [&]<class T>(T) {
    const T* values = running.data<T>();
    const T z = static_cast<T>(z_loss);
    for (int64_t row = 0; row < running.dim(0); ++row, values += 3) {
      const bool is_out = target[row] < 0 || (values[0] == kNothing<T> && values[1] == 0);
      const T log_sum = is_out ? T{0} : values[0] + std::log(values[1]);
      lse.data<T>()[row] = log_sum;
      const T cross = log_sum - values[2];
      loss.data<T>()[row] = is_out ? T{0} : z == 0 ? cross : cross + z * log_sum * log_sum;
    }
  });
}

void cross_entropy_backward(Stream& stream, Tensor& logits, const Tensor& lse,
                            const Tensor& targets, int64_t first_column, int64_t vocab,
                            const Tensor& scale, double z_loss) {
  report_bad_targets(stream, "cross_entropy_backward", targets, vocab);
  const int64_t width = logits.dim(1), real = real_width(logits, first_column, vocab);
  const int32_t* target = targets.data<int32_t>();
  with_float(logits.dtype(), [&]<class T>(T) {
    using F = Compute<T>;
    const F factor = static_cast<F>(scale.data<double>()[0]);
    const int64_t grain = rows_of_piece(width);
    stream.team().for_pieces(logits.dim(0), grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        T* x = logits.data<T>() + row * width;
        if (!counts(target[row], vocab)) {
          std::fill_n(x, width, T{0});
          continue;
        }
        const F log_sum = lse.data<F>()[row];
        const int64_t own = target[row] - first_column;
        const bool owned = own >= 0 && own < real;
        // Softmax - 1 first, then the scale: the rounding of a product must not enter the
        // difference.
        const F more = z_loss == 0 ? F{1} : 1 + 2 * static_cast<F>(z_loss) * log_sum;
        const F softmax_factor = more * factor;
        const F own_gradient =
            owned ? (exp_of(value_of(x[own]) - log_sum) * more - 1) * factor : F{0};
        for_packs<F>(0, real, [&](auto at) {
          at.put(x, vexp(at(static_cast<const T*>(x)) - log_sum) * softmax_factor);
        });
        if (owned) x[own] = element_of<T>(own_gradient);
        std::fill(x + real, x + width, T{0});
      }
    });
  });
}

void cross_entropy(Stream& stream, Tensor& loss, Tensor& lse, Tensor& running, Tensor& logits,
                   const Tensor& targets, int64_t vocab, const Tensor& scale, double z_loss) {
  report_bad_targets(stream, "cross_entropy", targets, vocab);
  cpu::cross_entropy_begin(stream, running);
  cpu::cross_entropy_chunk(stream, running, logits, targets, 0, vocab);
  cpu::cross_entropy_end(stream, loss, lse, running, targets, z_loss);
  cpu::cross_entropy_backward(stream, logits, lse, targets, 0, vocab, scale, z_loss);
}

}  // namespace sextant::cpu
