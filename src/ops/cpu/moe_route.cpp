#include "ops/moe_route.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "ops/cpu/row_blocks.h"
#include "ops/fault_texts.h"

namespace sextant::cpu {
namespace {

constexpr int64_t kElements = 4096;  // logits of one piece of work
template <class F>
constexpr F kTiny = F(1e-20);  // keeps a sum of scores above zero

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

template <class F>
F sigmoid(F logit) {
  return 1 / (1 + std::exp(-logit));
}

// The probability of each expert in the balance loss. The z-loss is of the softmax for every
// router.
template <class F>
struct Probabilities {
  Probabilities(const F* logits, int64_t experts, Router router)
      : softmax(logits, experts), is_sigmoid(router == Router::Sigmoid) {
    if (is_sigmoid)
      for (int64_t e = 0; e < experts; ++e) scores += sigmoid(logits[e]);
  }
  F operator()(F logit) const { return is_sigmoid ? sigmoid(logit) / scores : softmax(logit); }
  // The gradient of a logit: from_balance times that of P, which is P for the softmax and
  // P * (1 - score) for scores divided by their sum, plus from_z times that of the log-sum-exp.
  double gradient(F logit, double from_balance, double from_z) const {
    const auto own = static_cast<double>(softmax(logit));
    if (!is_sigmoid) return own * (from_balance + from_z);
    const auto score = static_cast<double>(sigmoid(logit));
    return static_cast<double>((*this)(logit)) * (1 - score) * from_balance + own * from_z;
  }
  Softmax<F> softmax;
  bool is_sigmoid;
  F scores = 0;
};

// The experts of the groups that a token may choose from: others have a score of -infinity.
template <class F>
void keep_groups(std::vector<F>& scores, const Routing& routing, std::vector<F>& sums,
                 std::vector<int32_t>& kept) {
  const int64_t size = static_cast<int64_t>(scores.size()) / routing.groups;
  for (int64_t group = 0; group < routing.groups; ++group) {
    const F* own = scores.data() + group * size;
    F first = own[0], second = own[1];
    if (second > first) std::swap(first, second);
    for (int64_t e = 2; e < size; ++e) {
      if (own[e] > first)
        second = std::exchange(first, own[e]);
      else if (own[e] > second)
        second = own[e];
    }
    sums[static_cast<size_t>(group)] = first + second;
  }
  choose_largest(kept.data(), routing.groups_chosen, sums.data(), routing.groups);
  for (int64_t group = 0; group < routing.groups; ++group)
    if (std::find(kept.begin(), kept.end(), static_cast<int32_t>(group)) == kept.end())
      std::fill_n(scores.begin() + group * size, size, -std::numeric_limits<F>::infinity());
}

// Sigmoid routing of one token after the other.
template <class F>
class SigmoidChoice {
 public:
  SigmoidChoice(int64_t experts, int64_t chosen, const F* bias, const Routing& routing)
      : routing_(routing),
        chosen_(chosen),
        bias_(bias),
        scores_(static_cast<size_t>(experts)),
        sums_(static_cast<size_t>(routing.groups)),
        kept_(static_cast<size_t>(routing.groups_chosen)) {}

  void operator()(int32_t* picked, F* gates, const F* logits) {
    for (size_t e = 0; e < scores_.size(); ++e) scores_[e] = sigmoid(logits[e]) + bias_[e];
    if (routing_.groups > 1) keep_groups(scores_, routing_, sums_, kept_);
    choose_largest(picked, chosen_, scores_.data(), static_cast<int64_t>(scores_.size()));
    F sum = 0;
    for (int64_t j = 0; j < chosen_; ++j) sum += gates[j] = sigmoid(logits[picked[j]]);
    const F factor = static_cast<F>(routing_.scale) / (routing_.normalize ? sum + kTiny<F> : 1);
    for (int64_t j = 0; j < chosen_; ++j) gates[j] *= factor;
  }

 private:
  const Routing& routing_;
  int64_t chosen_;
  const F* bias_;
  std::vector<F> scores_, sums_;
  std::vector<int32_t> kept_;
};

// The scores w of the chosen experts have the sum S: gate = scale w / S, so
// dw = scale / S (dgate - sum(dgate w) / S), dlogit = dw w (1 - w). One score divided by itself is
// 1 whatever it is: its gradient is 0, and must be, as AdamW would follow what rounding leaves of
// it.
template <class F>
void sigmoid_backward(F* dlogits, const F* dgates, const int32_t* picked, int64_t chosen,
                      const F* logits, const Routing& routing) {
  if (routing.normalize && chosen == 1) return;
  F sum = 0, weighted = 0;
  for (int64_t j = 0; j < chosen; ++j) {
    const F score = sigmoid(logits[picked[j]]);
    sum += score;
    weighted += dgates[j] * score;
  }
  sum = routing.normalize ? sum + kTiny<F> : 1;
  const F mean = routing.normalize ? weighted / sum : 0;
  for (int64_t j = 0; j < chosen; ++j) {
    const F score = sigmoid(logits[picked[j]]);
    dlogits[picked[j]] +=
        static_cast<F>(routing.scale) / sum * (dgates[j] - mean) * score * (1 - score);
  }
}

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
template <class F>
struct BalanceFactors {
  BalanceFactors(const Tensor& load, const RouterUnit& unit)
      : counts(unit.load_tokens > 0 ? nullptr : load.data<int32_t>()),
        errors(unit.load_tokens > 0 ? load.data<F>() : nullptr),
        tokens(static_cast<double>(unit.tokens)) {
    const auto chosen = static_cast<double>(unit.chosen);
    each = counts == nullptr ? 1 / (chosen * static_cast<double>(unit.load_tokens))
                             : static_cast<double>(load.dim(0)) / (chosen * tokens * tokens);
  }
  double operator()(int64_t expert) const {
    if (counts != nullptr) return each * counts[expert];
    return (1 + each * static_cast<double>(errors[expert])) / tokens;
  }
  const int32_t* counts;
  const F* errors;
  double tokens, each;
};

}  // namespace

void moe_route(Stream& stream, Tensor& choice, Tensor& gates, Tensor& counts, const Tensor& logits,
               const Tensor& bias, const Routing& routing) {
  const Router router = routing.router;
  const int64_t tokens = logits.dim(0), experts = logits.dim(1), chosen = choice.dim(1);
  int32_t* to = choice.data<int32_t>();
  with_statistics(logits.dtype(), [&]<class F>(F) {
    const F* from = logits.data<F>();
    F* weights = gates.data<F>();
    stream.team().for_pieces(tokens, rows_of_piece(experts), [&](int64_t begin, int64_t end, int) {
      if (router == Router::Sigmoid) {
        SigmoidChoice<F> choose(experts, chosen, bias.data<F>(), routing);
        for (int64_t row = begin; row < end; ++row)
          choose(to + row * chosen, weights + row * chosen, from + row * experts);
        return;
      }
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
                        const Tensor& logits, const Routing& routing) {
  const Router router = routing.router;
  const int64_t experts = logits.dim(1), chosen = choice.dim(1);
  with_statistics(logits.dtype(), [&]<class F>(F) {
    std::memset(dlogits.raw(), 0, static_cast<size_t>(dlogits.bytes()));
    for_valid_rows(stream, choice, experts, [&](int64_t row) {
      const F* own = logits.data<F>() + row * experts;
      const F* above = dgates.data<F>() + row * chosen;
      const int32_t* picked = choice.data<int32_t>() + row * chosen;
      F* out = dlogits.data<F>() + row * experts;
      if (router == Router::Sigmoid)
        return sigmoid_backward(out, above, picked, chosen, own, routing);
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
                const Tensor& own, const RouterUnit& unit, Router router) {
  const int64_t experts = logits.dim(1);
  const RowBlocks blocks = RowBlocks::make<double>(logits.dim(0), 2);
  double* out = sums.data<double>();
  for (int64_t e = 0; e < experts; ++e) out[2 + e] += own.data<int32_t>()[e];
  with_statistics(logits.dtype(), [&]<class F>(F) {
    const BalanceFactors<F> factor(counts, unit);
    blocks.for_rows<double>(stream, [&](int64_t row, double* partial) {
      const F* logit = logits.data<F>() + row * experts;
      const Probabilities<F> probability(logit, experts, router);
      for (int64_t e = 0; e < experts; ++e)
        partial[0] += factor(e) * static_cast<double>(probability(logit[e]));
      const auto lse = static_cast<double>(probability.softmax.lse());
      partial[1] += lse * lse / static_cast<double>(unit.tokens);
    });
  });
  blocks.fold<double>(stream, out, 0, 2, Write::Add);
}

void moe_losses_backward(Stream& stream, Tensor& dlogits, const Tensor& logits,
                         const Tensor& counts, const RouterUnit& unit,
                         const RouterLossWeights& weights, const Tensor& scale, Router router) {
  const int64_t experts = logits.dim(1);
  const double balance = *scale.data<double>() * weights.balance;
  const double z = *scale.data<double>() * weights.z * 2 / static_cast<double>(unit.tokens);
  with_statistics(logits.dtype(), [&]<class F>(F) {
    const BalanceFactors<F> factor(counts, unit);
    stream.team().for_pieces(
        logits.dim(0), rows_of_piece(experts), [&](int64_t begin, int64_t end, int) {
          for (int64_t row = begin; row < end; ++row) {
            const F* own = logits.data<F>() + row * experts;
            F* out = dlogits.data<F>() + row * experts;
            const Probabilities<F> probability(own, experts, router);
            double mean = 0;
            for (int64_t e = 0; e < experts; ++e)
              mean += factor(e) * static_cast<double>(probability(own[e]));
            const double from_z = z * static_cast<double>(probability.softmax.lse());
            for (int64_t e = 0; e < experts; ++e)
              out[e] += static_cast<F>(
                  probability.gradient(own[e], balance * (factor(e) - mean), from_z));
          }
        });
  });
}

}  // namespace sextant::cpu
