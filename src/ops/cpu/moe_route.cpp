#include "ops/moe_route.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/cpu/row_blocks.h"
#include "ops/fault_texts.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kElements = 4096;  // logits of one piece of work

int64_t rows_of_piece(int64_t experts) {
  return std::max<int64_t>(1, kElements / experts);
}

// The largest logits, in descending order, equal ones by ascending expert. Always distinct experts,
// also for logits that are NaN.
template <class F>
void choose_largest(int32_t* choice, int64_t chosen, const F* logits, int64_t experts) {
  for (int64_t j = 0; j < chosen; ++j) {
    int64_t best = -1;
    for (int64_t e = 0; e < experts; ++e)
      if (std::find(choice, choice + j, static_cast<int32_t>(e)) == choice + j &&
          (best < 0 || logits[e] > logits[best]))
        best = e;
    choice[j] = static_cast<int32_t>(best);
  }
}

// exp(logit - largest) summed over all experts.
template <class F>
struct Softmax {
  Softmax(const F* logits, int64_t experts)
      : largest(*std::max_element(logits, logits + experts)), sum(0) {
    for (int64_t e = 0; e < experts; ++e) sum += std::exp(logits[e] - largest);
  }
  F operator()(F logit) const { return std::exp(logit - largest) / sum; }
  F lse() const { return largest + std::log(sum); }
  F largest, sum;
};

// The softmax of the chosen logits, gate by gate.
template <class F>
void softmax_of_chosen(F* gates, const int32_t* choice, int64_t chosen, const F* logits) {
  F largest = logits[choice[0]], sum = 0;
  for (int64_t j = 1; j < chosen; ++j) largest = std::max(largest, logits[choice[j]]);
  for (int64_t j = 0; j < chosen; ++j) sum += gates[j] = std::exp(logits[choice[j]] - largest);
  for (int64_t j = 0; j < chosen; ++j) gates[j] /= sum;
}

bool is_expert(int32_t expert, int64_t experts) {
  return expert >= 0 && expert < experts;
}

// f(row) for rows whose choice is valid; others are reported and skipped.
template <class F>
void for_valid_rows(Stream& stream, const Tensor& choice, int64_t experts, F&& f) {
  const int64_t chosen = choice.dim(1);
  const int32_t* chosen_experts = choice.data<int32_t>();
  for (int64_t i = 0; i < choice.elements(); ++i)
    if (!is_expert(chosen_experts[i], experts)) {
      stream.report({Fault::Internal,
                     "moe_route_backward",
                     kBadExpertOfToken,
                     {chosen_experts[i], i / chosen, experts}});
      break;
    }
  stream.team().for_pieces(
      choice.dim(0), rows_of_piece(experts), [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row)
          if (std::all_of(chosen_experts + row * chosen, chosen_experts + (row + 1) * chosen,
                          [&](int32_t expert) { return is_expert(expert, experts); }))
            f(row);
      });
}

// The weight of each expert's probability in the balance loss: E * f / unit tokens.
struct BalanceFactors {
  BalanceFactors(const Tensor& counts, const RouterUnit& unit)
      : counts(counts.data<int32_t>()),
        each(static_cast<double>(counts.dim(0)) /
             (static_cast<double>(unit.chosen) * static_cast<double>(unit.tokens) *
              static_cast<double>(unit.tokens))) {}
  double operator()(int64_t expert) const { return each * counts[expert]; }
  const int32_t* counts;
  double each;
};

}  // namespace

void moe_route(Stream& stream, Tensor& choice, Tensor& gates, Tensor& counts, const Tensor& logits,
               Router router) {
  const int64_t tokens = logits.dim(0), experts = logits.dim(1), chosen = choice.dim(1);
  int32_t* to = choice.data<int32_t>();
  with_statistics(logits.dtype(), [&]<class F>(F) {
    const F* from = logits.data<F>();
    F* weights = gates.data<F>();
    stream.team().for_pieces(tokens, rows_of_piece(experts), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const F* own = from + row * experts;
        int32_t* picked = to + row * chosen;
        F* gate = weights + row * chosen;
        if (router == Router::Balanced)
          for (int64_t j = 0; j < chosen; ++j)
            picked[j] = static_cast<int32_t>((row * chosen + j) % experts);
        else
          choose_largest(picked, chosen, own, experts);
        if (router == Router::SoftmaxBefore) {
          const Softmax<F> softmax(own, experts);
          for (int64_t j = 0; j < chosen; ++j) gate[j] = softmax(own[picked[j]]);
        } else {
          softmax_of_chosen(gate, picked, chosen, own);
        }
      }
    });
  });
  int32_t* count = counts.data<int32_t>();
  std::fill(count, count + experts, 0);
  for (int64_t i = 0; i < tokens * chosen; ++i) ++count[to[i]];
}

void moe_route_backward(Stream& stream, Tensor& dlogits, const Tensor& dgates, const Tensor& choice,
                        const Tensor& logits, Router router) {
  const int64_t experts = logits.dim(1), chosen = choice.dim(1);
  with_statistics(logits.dtype(), [&]<class F>(F) {
    std::memset(dlogits.raw(), 0, static_cast<size_t>(dlogits.bytes()));
    for_valid_rows(stream, choice, experts, [&](int64_t row) {
      const F* own = logits.data<F>() + row * experts;
      const F* above = dgates.data<F>() + row * chosen;
      const int32_t* picked = choice.data<int32_t>() + row * chosen;
      F* out = dlogits.data<F>() + row * experts;
      if (router == Router::SoftmaxBefore) {
        const Softmax<F> softmax(own, experts);
        F mean = 0;
        for (int64_t j = 0; j < chosen; ++j) mean += above[j] * softmax(own[picked[j]]);
        for (int64_t e = 0; e < experts; ++e) out[e] = -mean * softmax(own[e]);
        for (int64_t j = 0; j < chosen; ++j) out[picked[j]] += above[j] * softmax(own[picked[j]]);
        return;
      }
      F largest = own[picked[0]], sum = 0, mean = 0;
      for (int64_t j = 1; j < chosen; ++j) largest = std::max(largest, own[picked[j]]);
      for (int64_t j = 0; j < chosen; ++j) sum += std::exp(own[picked[j]] - largest);
      const auto gate = [&](int64_t j) { return std::exp(own[picked[j]] - largest) / sum; };
      for (int64_t j = 0; j < chosen; ++j) mean += above[j] * gate(j);
      for (int64_t j = 0; j < chosen; ++j) out[picked[j]] += gate(j) * (above[j] - mean);
    });
  });
}

void moe_losses(Stream& stream, Tensor& sums, const Tensor& logits, const Tensor& counts,
                const Tensor& own, const RouterUnit& unit) {
  const int64_t experts = logits.dim(1);
  const BalanceFactors factor(counts, unit);
  const RowBlocks blocks = RowBlocks::make<double>(logits.dim(0), 2);
  double* out = sums.data<double>();
  for (int64_t e = 0; e < experts; ++e) out[2 + e] += own.data<int32_t>()[e];
  with_statistics(logits.dtype(), [&]<class F>(F) {
    blocks.for_rows<double>(stream, [&](int64_t row, double* partial) {
      const F* logit = logits.data<F>() + row * experts;
      const Softmax<F> softmax(logit, experts);
      for (int64_t e = 0; e < experts; ++e)
        partial[0] += factor(e) * static_cast<double>(softmax(logit[e]));
      const auto lse = static_cast<double>(softmax.lse());
      partial[1] += lse * lse / static_cast<double>(unit.tokens);
    });
  });
  blocks.fold<double>(stream, out, 0, 2, Write::Add);
}

void moe_losses_backward(Stream& stream, Tensor& dlogits, const Tensor& logits,
                         const Tensor& counts, const RouterUnit& unit,
                         const RouterLossWeights& weights, const Tensor& scale) {
  const int64_t experts = logits.dim(1);
  const BalanceFactors factor(counts, unit);
  const double balance = *scale.data<double>() * weights.balance;
  const double z = *scale.data<double>() * weights.z * 2 / static_cast<double>(unit.tokens);
  with_statistics(logits.dtype(), [&]<class F>(F) {
    stream.team().for_pieces(
        logits.dim(0), rows_of_piece(experts), [&](int64_t begin, int64_t end, int) {
          for (int64_t row = begin; row < end; ++row) {
            const F* own = logits.data<F>() + row * experts;
            F* out = dlogits.data<F>() + row * experts;
            const Softmax<F> softmax(own, experts);
            double mean = 0;
            for (int64_t e = 0; e < experts; ++e)
              mean += factor(e) * static_cast<double>(softmax(own[e]));
            const double from_z = z * static_cast<double>(softmax.lse());
            for (int64_t e = 0; e < experts; ++e)
              out[e] += static_cast<F>(static_cast<double>(softmax(own[e])) *
                                       (balance * (factor(e) - mean) + from_z));
          }
        });
  });
}

}  // namespace sextant::cpu
