// Each layer by itself: input and weight gradients against finite differences, computed in two
// separate passes as in a zero-bubble schedule.
#include <gtest/gtest.h>

#include <deque>

#include "model/attention.h"
#include "model/embedding.h"
#include "model/experts.h"
#include "model/head.h"
#include "model/mlp.h"
#include "ops/add.h"
#include "ops/rope.h"
#include "support/alone.h"
#include "support/gradient_check.h"
#include "support/tiny_model.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr int64_t kWide = 8, kTokens = 12, kVocab = 19;

class Layers : public testing::Test {
 protected:
  Param* param(const std::string& name, const Shape& shape, double offset = 0) {
    Param& made = params_.emplace_back();
    made.name = name;
    made.shape = shape;
    made.value = bench_.random<double>(shape, name, 0.4, offset);
    made.grad = bench_.empty<double>(shape);
    return &made;
  }
  Norm layernorm() {
    return {param("norm.weight", {kWide}, 1), param("norm.bias", {kWide}), 1e-5, DType::F64};
  }
  Norm rmsnorm() { return {param("norm.weight", {kWide}, 1), nullptr, 1e-5, DType::F64}; }
  Linear linear(const std::string& name, int64_t out, int64_t in) {
    return {param(name + ".weight", {out, in}), param(name + ".bias", {out})};
  }

  // forward, input gradient, weight gradient, and every gradient of sum(y * dy).
  void check(Layer& layer, const Tensor& y_like) {
    Tensor x = bench_.random<double>({kTokens, kWide}, "x");
    const Tensor dy = bench_.random<double>(y_like.shape(), "dy");
    const auto value = [&] {
      Saved unused;
      const auto [residual, update] = layer.forward(stream(), micro_, {x}, unused);
      return dot(stream(), residual, dy) + (update ? dot(stream(), update, dy) : 0);
    };
    Saved saved;
    layer.forward(stream(), micro_, {x}, saved);
    const Tensor dx = layer.backward_input(stream(), micro_, dy, saved);
    layer.backward_weight(stream(), micro_, saved);
    if (dx) expect_gradient(stream(), x, dx, "x", value);
    for (Param* param : layer.params())
      expect_gradient(stream(), param->value, param->grad, param->name, value);
  }
  Stream& stream() { return bench_.stream(); }
  // Turns dropout on for layers that have it.
  Dropout dropout() {
    if (!micro_.indices) number_tokens(stream(), micro_);
    return {"place", 0.4, 7};
  }

  Workbench bench_{2};
  Alone alone_;
  std::deque<Param> params_;
  Micro micro_ = tiny_micro(bench_.stream(), 2, 6, kVocab);
  Tensor hidden_ = bench_.empty<double>({kTokens, kWide});
};

TEST_F(Layers, EmbeddingWithPositions) {
  Embedding layer(
      {param("tokens", {kVocab, kWide}), param("positions", {6, kWide}), {}, &alone_.tensor});
  check(layer, hidden_);
}

TEST_F(Layers, AttentionOfGpt2) {
  Attention layer({layernorm(), linear("qkv", 24, kWide), linear("out", kWide, 8), nullptr, nullptr,
                   &alone_.tensor, &alone_.context},
                  {1, 0, 4, 4, 2}, {}, 0);
  check(layer, hidden_);
}

TEST_F(Layers, AttentionOfQwen3WithGroupsAndNormedHeads) {
  RopeTable rope{bench_.empty<double>({6, 2}), bench_.empty<double>({6, 2})};
  rope_table(stream(), rope.cos, rope.sin, {});
  Attention layer({rmsnorm(),
                   {param("qkv", {32, kWide}), nullptr},
                   {param("out", {kWide, 16}), nullptr},
                   param("q_norm", {4}, 1),
                   param("k_norm", {4}, 1),
                   &alone_.tensor,
                   &alone_.context},
                  {1, 0, 4, 2, 4}, rope, 0);
  check(layer, hidden_);
}

// Biases of queries, keys and values alone, scaled rotary positions and a window.
TEST_F(Layers, AttentionOfQwen2InAWindow) {
  RopeTable rope{bench_.empty<double>({6, 2}), bench_.empty<double>({6, 2})};
  rope_table(
      stream(), rope.cos, rope.sin,
      {.factor = 4, .original_seq = 9, .slowing = RopeSlowing::Yarn, .attention_factor = 1.2});
  Attention layer({rmsnorm(),
                   linear("qkv", 32, kWide),
                   {param("out", {kWide, 16}), nullptr},
                   nullptr,
                   nullptr,
                   &alone_.tensor,
                   &alone_.context},
                  {1, 0, 4, 2, 4, 2}, rope, 0);
  check(layer, hidden_);
}

TEST_F(Layers, GatedMlpWithBiases) {
  Mlp layer({rmsnorm(), linear("gate_up", 24, kWide), linear("down", kWide, 12), std::nullopt,
             &alone_.tensor});
  check(layer, hidden_);
}

TEST_F(Layers, MlpWithBothFormsOfGelu) {
  for (const Activation activation : {Activation::GeluTanh, Activation::GeluExact}) {
    Mlp layer({layernorm(), linear("up", 12, kWide), linear("down", kWide, 12), activation,
               &alone_.tensor});
    check(layer, hidden_);
  }
}

// With auxiliary losses of every unit, whose sum over the micro-batch is in Micro::routing, and
// once with shared experts.
TEST_F(Layers, ExpertsOfEverySoftmaxRouter) {
  constexpr int64_t kExperts = 4, kChosen = 2, kFfn = 6;
  const RouterLossWeights weights{0.3, 0.2};
  using Unit = BalanceUnit;
  for (const auto& [router, factor, unit] : {std::tuple{Router::SoftmaxAfter, 0.0, Unit::Micro},
                                             {Router::SoftmaxBefore, 0.0, Unit::Micro},
                                             {Router::Balanced, 0.0, Unit::Micro},
                                             {Router::SoftmaxAfter, 1.0, Unit::Sequence},
                                             {Router::SoftmaxBefore, 1.0, Unit::Micro},
                                             {Router::SoftmaxAfter, 0.0, Unit::Sequence},
                                             {Router::SoftmaxBefore, 0.0, Unit::Global}}) {
    ExpertRanks::Sizes sizes{kExperts, kChosen};
    sizes.factor = factor;
    const ExpertRanks experts(alone_.mesh.mesh(), sizes);
    const ExpertExchange exchange(alone_.mesh.mesh().along(ExpertAxis::Ep), experts, 1);
    ExpertsParts parts{"moe",
                       rmsnorm(),
                       param("router", {kExperts, kWide}),
                       nullptr,
                       unit == Unit::Global ? param("load", {kExperts}) : nullptr,
                       {param("gate_up", {kExperts * 2 * kFfn, kWide})},
                       {param("down", {kExperts * kWide, kFfn})},
                       &alone_.tensor,
                       &alone_.context,
                       &experts,
                       &exchange};
    parts.routing.router = router;
    if (router == Router::SoftmaxBefore) {
      parts.shared_up.weight = param("shared_up", {2 * kFfn, kWide});
      parts.shared_down.weight = param("shared_down", {kWide, kFfn});
    }
    parts.chosen = kChosen;
    parts.losses = weights;
    parts.unit = unit;
    parts.step_tokens = 3;
    Experts layer(parts);
    micro_.scalars.aux_loss_weight = bench_.make<double>({1}, {0.5});
    Tensor x = bench_.random<double>({kTokens, kWide}, "x");
    const Tensor dy = bench_.random<double>({kTokens, kWide}, "dy");
    const auto value = [&] {
      micro_.routing = bench_.make<double>({1, 3 + kExperts}, std::vector<double>(3 + kExperts));
      Saved unused;
      const auto [residual, update] = layer.forward(stream(), micro_, {x}, unused);
      const std::vector<double> losses = bench_.read<double>(micro_.routing);
      return dot(stream(), residual, dy) + dot(stream(), update, dy) +
             0.5 * (weights.balance * losses[0] + weights.z * losses[1]);
    };
    value();
    double tokens = 0;
    for (int64_t e = 0; e < kExperts; ++e)
      tokens += bench_.read<double>(micro_.routing)[static_cast<size_t>(2 + e)];
    EXPECT_EQ(tokens, kTokens * kChosen);
    EXPECT_EQ(bench_.read<double>(micro_.routing)[2 + kExperts] > 0, factor > 0);
    Saved saved;
    layer.forward(stream(), micro_, {x}, saved);
    const Tensor dx = layer.backward_input(stream(), micro_, dy, saved);
    layer.backward_weight(stream(), micro_, saved);
    expect_gradient(stream(), x, dx, "x", value, 1e-7);
    for (Param* param : layer.params())
      if (param != parts.router_load)  // has a load error
        expect_gradient(stream(), param->value, param->grad, param->name, value, 1e-7);
  }
}

TEST_F(Layers, GatedMlp) {
  Mlp layer({rmsnorm(),
             {param("gate_up", {24, kWide}), nullptr},
             {param("down", {kWide, 12}), nullptr},
             std::nullopt,
             &alone_.tensor});
  check(layer, hidden_);
}

TEST_F(Layers, EmbeddingWithDropout) {
  Embedding layer({param("tokens", {kVocab, kWide}),
                   param("positions", {6, kWide}),
                   {},
                   &alone_.tensor,
                   dropout()});
  check(layer, hidden_);
}

TEST_F(Layers, AttentionWithDropout) {
  Attention layer({layernorm(), linear("qkv", 24, kWide), linear("out", kWide, 8), nullptr, nullptr,
                   &alone_.tensor, &alone_.context, dropout()},
                  {1, 0, 4, 4, 2}, {}, 0);
  check(layer, hidden_);
}

TEST_F(Layers, MlpWithDropout) {
  for (const std::optional<Activation> activation : {std::optional(Activation::GeluTanh), {}}) {
    const int64_t wide = activation ? 12 : 24;
    Mlp layer({rmsnorm(), linear("up", wide, kWide), linear("down", kWide, 12), activation,
               &alone_.tensor, dropout()});
    check(layer, hidden_);
  }
}

TEST_F(Layers, HeadIsSeededByTheLossScaleAlone) {
  for (const LogitsPolicy policy : {LogitsPolicy::Keep, LogitsPolicy::Chunked}) {
    Head layer({layernorm(),
                {param("output", {32, kWide}), nullptr},
                false,
                kVocab,
                policy,
                0,
                &alone_.tensor});
    Tensor x = bench_.random<double>({kTokens, kWide}, "x");
    const auto value = [&] {
      Saved unused;
      const Tensor loss = layer.forward(stream(), micro_, {x}, unused).residual;
      const Tensor ones = bench_.make<double>({kTokens}, std::vector<double>(kTokens, 1));
      return dot(stream(), loss, ones) * kTinyLossScale;
    };
    const auto backward = [&](HeadOutput output) {
      Micro micro = micro_;
      micro.output = output;
      for (Param* param : layer.params()) param->start_step();
      Saved saved;
      layer.forward(stream(), micro, {x}, saved);
      const Tensor dx = layer.backward_input(stream(), micro, Tensor(), saved);
      layer.backward_weight(stream(), micro, saved);
      return dx;
    };
    const Tensor dx = backward(HeadOutput::Loss);
    expect_gradient(stream(), x, dx, "x", value);
    for (Param* param : layer.params())
      expect_gradient(stream(), param->value, param->grad, param->name, value);
    std::vector<std::vector<std::byte>> bits{bench_.bytes(dx)}, wanted = bits;
    for (Param* param : layer.params()) wanted.push_back(bench_.bytes(param->grad));
    bits[0] = bench_.bytes(backward(HeadOutput::LossAndGradient));
    for (Param* param : layer.params()) bits.push_back(bench_.bytes(param->grad));
    EXPECT_EQ(bits, wanted);
  }
}

TEST_F(Layers, TakeTheSumOfResidualAndUpdate) {
  Mlp mlp({layernorm(), linear("up", 12, kWide), linear("down", kWide, 12), Activation::GeluTanh,
           &alone_.tensor});
  const Tensor residual = bench_.random<double>({kTokens, kWide}, "residual");
  Tensor update = bench_.random<double>({kTokens, kWide}, "update");
  Tensor sum = bench_.empty<double>({kTokens, kWide});
  add(stream(), sum, residual, update);
  Saved one, other;
  const Hidden wanted = mlp.forward(stream(), micro_, {sum}, one);
  const Hidden got = mlp.forward(stream(), micro_, {residual, update}, other);
  EXPECT_EQ(bench_.bytes(got.residual), bench_.bytes(sum));
  EXPECT_EQ(bench_.bytes(got.update), bench_.bytes(wanted.update));
  EXPECT_EQ(got.residual.data<double>(), update.data<double>());  // the sum was written in place
}

TEST_F(Layers, OneThatKeepsNothingIsRecomputedFromTheLayerBefore) {
  Attention attention({layernorm(), linear("qkv", 24, kWide), linear("out", kWide, 8), nullptr,
                       nullptr, &alone_.tensor, &alone_.context, dropout()},
                      {1, 0, 4, 4, 2}, {}, 0);
  Mlp mlp({rmsnorm(), linear("up", 24, kWide), linear("down", kWide, 12), std::nullopt,
           &alone_.tensor, dropout()});
  const Tensor x = bench_.random<double>({kTokens, kWide}, "x");
  const Tensor dy = bench_.random<double>({kTokens, kWide}, "dy");
  const auto gradients = [&](Keep first, Keep second) {
    const int64_t before = bench_.arena().current(Category::Activations);
    Saved a, m;
    for (Param& param : params_) param.start_step();
    Hidden y = attention.forward(stream(), micro_, {x}, a);
    if (first != Keep::All) attention.discard_activations(first, a);
    mlp.forward(stream(), micro_, std::move(y), m);
    if (second != Keep::All) mlp.discard_activations(second, m);
    const int64_t kept = bench_.arena().current(Category::Activations) - before;
    y = {};
    if (first != Keep::All) y = attention.recompute(stream(), micro_, first, {}, a);
    if (second != Keep::All) mlp.recompute(stream(), micro_, second, std::move(y), m);
    const Tensor dmiddle = mlp.backward_input(stream(), micro_, dy, m);
    const Tensor dx = attention.backward_input(stream(), micro_, dmiddle, a);
    mlp.backward_weight(stream(), micro_, m);
    attention.backward_weight(stream(), micro_, a);
    std::vector<std::vector<std::byte>> bits{bench_.bytes(dx)};
    for (Param& param : params_) bits.push_back(bench_.bytes(param.grad));
    return std::pair(bits, kept);
  };
  const auto [all, most] = gradients(Keep::All, Keep::All);
  const auto [without_core, less] = gradients(Keep::Outside, Keep::All);
  const auto [from_input, least] = gradients(Keep::Input, Keep::Nothing);
  EXPECT_TRUE(without_core == all);
  EXPECT_TRUE(from_input == all);
  // In elements, of 12 tokens: normed, mean, inverse, qkv, log-sum-exp of 4 heads, attended values;
  // x, inverse, normed, gate and up, their product.
  const int64_t core = 12 * 4 + 12 * 8;
  const int64_t attention_kept = 12 * 8 + 12 + 12 + 12 * 24 + core;
  const int64_t mlp_kept = 12 * 8 + 12 + 12 * 8 + 12 * 24 + 12 * 12;
  EXPECT_EQ(most, 8 * (attention_kept + mlp_kept));
  EXPECT_EQ(less, 8 * (attention_kept + mlp_kept - core));
  EXPECT_EQ(least, 0);  // x itself is the test's
}

}  // namespace
}  // namespace sextant
