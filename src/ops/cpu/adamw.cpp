// One pass over the arrays: a step costs what reading and writing them costs, so the arithmetic
// only has to stay below that.
#include "ops/adamw.h"

#include <cmath>

#include "ops/cpu/rounding.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kGrain = 8192;

template <class T>
VectorOf<T> square_root(VectorOf<T> x) {
  for (int64_t lane = 0; lane < kLanes<VectorOf<T>>; ++lane) x[lane] = std::sqrt(x[lane]);
  return x;
}

double value_at(const double* scalars, UpdateScalar which) {
  return scalars[static_cast<size_t>(which)];
}

template <class T>
struct Factors {
  Factors(const double* scalars, const AdamWSettings& settings, double weight_decay)
      : Factors(settings, weight_decay, value_at(scalars, UpdateScalar::LearningRate),
                value_at(scalars, UpdateScalar::Correction1),
                value_at(scalars, UpdateScalar::Correction2),
                value_at(scalars, UpdateScalar::GradientScale)) {}

  T keep, beta1, one_minus_beta1, beta2, one_minus_beta2, rate, root, eps, scale;

 private:
  Factors(const AdamWSettings& settings, double decay, double lr, double correction1,
          double correction2, double gradient_scale)
      : keep(static_cast<T>(1 - lr * decay)),
        beta1(static_cast<T>(settings.beta1)),
        one_minus_beta1(static_cast<T>(1 - settings.beta1)),
        beta2(static_cast<T>(settings.beta2)),
        one_minus_beta2(static_cast<T>(1 - settings.beta2)),
        rate(static_cast<T>(lr / correction1)),
        root(static_cast<T>(1 / std::sqrt(correction2))),
        eps(static_cast<T>(settings.eps)),
        scale(static_cast<T>(gradient_scale)) {}
};

// W, M, G: types of the weight, of the moments and of the gradient.
template <class W, class M, class G>
void update(Stream& stream, const AdamWPart& part, const Factors<Compute<W>>& k,
            const AdamWSettings& settings, uint32_t step) {
  using F = Compute<W>;
  Tensor weight = part.weight, first = part.first_moment, second = part.second_moment;
  Tensor master_tensor = part.master;
  W* w = weight.data<W>();
  F* master = part.master ? master_tensor.data<F>() : nullptr;
  M* m = first.data<M>();
  M* v = second.data<M>();
  const G* grad = part.gradient.data<G>();
  // Draws of the tensors that are rounded stochastically.
  const bool draws_weight = kIsNarrow<W> && master == nullptr;
  const auto run = [&](int64_t begin, int64_t end) {
    const auto words = [&](RoundedTensor which, bool is_drawn) {
      return RoundingWords(RoundingDraws(settings.seed, part.name, which, step), part.index(begin),
                           begin, end, is_drawn);
    };
    const RoundingWords weight_words = words(RoundedTensor::Weight, draws_weight);
    const RoundingWords first_words = words(RoundedTensor::FirstMoment, kIsNarrow<M>);
    const RoundingWords second_words = words(RoundedTensor::SecondMoment, kIsNarrow<M>);
    for_packs<F>(begin, end, [&](auto at) {
      const VectorOf<F> g = at(grad) * k.scale;
      const VectorOf<F> m1 = at(static_cast<const M*>(m)) * k.beta1 + g * k.one_minus_beta1;
      const VectorOf<F> v1 = at(static_cast<const M*>(v)) * k.beta2 + g * g * k.one_minus_beta2;
      const VectorOf<F> denominator = square_root<F>(v1) * k.root + k.eps;
      first_words.put(at, m, m1);
      second_words.put(at, v, v1);
      const VectorOf<F> before =
          master != nullptr ? at(static_cast<const F*>(master)) : at(static_cast<const W*>(w));
      const VectorOf<F> after = before * k.keep - m1 / denominator * k.rate;
      if (master != nullptr) {
        at.put(master, after);
        at.put(w, after);
      } else {
        weight_words.put(at, w, after);
      }
    });
  };
  stream.team().for_pieces(weight.elements(), kGrain, [&](int64_t begin, int64_t end, int) {
    if (!draws_weight && !kIsNarrow<M>) return run(begin, end);
    for (int64_t at = begin; at < end;) {
      const int64_t most = std::min(RoundingWords::kMost, part.index.run(at));
      run(at, std::min(at + most, end));
      at = std::min(at + most, end);
    }
  });
}

template <class W>
void update_part(Stream& stream, const AdamWPart& part, const double* scalars,
                 const AdamWSettings& settings) {
  using F = Compute<W>;
  const Factors<F> factors(scalars, settings, part.weight_decay);
  const auto step = static_cast<uint32_t>(value_at(scalars, UpdateScalar::Step));
  with_either<W>(part.gradient.dtype(), [&]<class G>(G) {
    if constexpr (std::is_same_v<F, float>) {
      if (part.first_moment.dtype() == DType::BF16)
        return update<W, bf16, G>(stream, part, factors, settings, step);
    }
    update<W, F, G>(stream, part, factors, settings, step);
  });
}

}  // namespace

void adamw(Stream& stream, std::span<const AdamWPart> parts, const Tensor& scalars,
           const AdamWSettings& settings) {
  const double* values = scalars.data<double>();
  if (value_at(values, UpdateScalar::Apply) == 0) return;
  for (const AdamWPart& part : parts)
    with_float(part.weight.dtype(),
               [&]<class W>(W) { update_part<W>(stream, part, values, settings); });
}

}  // namespace sextant::cpu
