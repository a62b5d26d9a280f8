// Each layer by itself: the gradient of its input and of its parameters against finite differences,
// with the two backward halves run apart, as a zero-bubble schedule does.
#include <gtest/gtest.h>

#include <deque>

#include "model/attention.h"
#include "model/embedding.h"
#include "model/head.h"
#include "model/mlp.h"
#include "ops/rope.h"
#include "support/alone.h"
#include "support/gradient_check.h"
#include "support/tiny_model.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr int64_t kHidden = 8, kTokens = 12, kVocab = 19;

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
  Norm layernorm() { return {param("norm.weight", {kHidden}, 1), param("norm.bias", {kHidden})}; }
  Norm rmsnorm() { return {param("norm.weight", {kHidden}, 1), nullptr}; }
  Linear linear(const std::string& name, int64_t out, int64_t in) {
    return {param(name + ".weight", {out, in}), param(name + ".bias", {out})};
  }

  // forward, both backward halves, and every gradient of sum(y * dy).
  void check(Layer& layer, const Tensor& y_like) {
    Tensor x = bench_.random<double>({kTokens, kHidden}, "x");
    const Tensor dy = bench_.random<double>(y_like.shape(), "dy");
    const auto value = [&] {
      Saved unused;
      return dot(stream(), layer.forward(stream(), micro_, x, unused), dy);
    };
    Saved saved;
    layer.forward(stream(), micro_, x, saved);
    const Tensor dx = layer.backward_input(stream(), micro_, dy, saved);
    layer.backward_weight(stream(), micro_, saved);
    if (dx) expect_gradient(stream(), x, dx, "x", value);
    for (Param* param : layer.params())
      expect_gradient(stream(), param->value, param->grad, param->name, value);
  }
  Stream& stream() { return bench_.stream(); }
  // From now on values are dropped, where the part says so.
  Dropout dropout() {
    if (!micro_.indices) number_tokens(stream(), micro_);
    return {"place", 0.4, 7};
  }

  Workbench bench_{2};
  Alone alone_;
  std::deque<Param> params_;
  Micro micro_ = tiny_micro(bench_.stream(), 2, 6, kVocab);
  Tensor hidden_ = bench_.empty<double>({kTokens, kHidden});
};

TEST_F(Layers, EmbeddingWithPositions) {
  Embedding layer(
      {param("tokens", {kVocab, kHidden}), param("positions", {6, kHidden}), {}, &alone_.tensor});
  check(layer, hidden_);
}

TEST_F(Layers, AttentionOfGpt2) {
  Attention layer({layernorm(), linear("qkv", 24, kHidden), linear("out", kHidden, 8), nullptr,
                   nullptr, &alone_.tensor, &alone_.context},
                  {1, 0, 4, 4, 2}, {}, 0);
  check(layer, hidden_);
}

TEST_F(Layers, AttentionOfQwen3WithGroupsAndNormedHeads) {
  RopeTable rope{bench_.empty<double>({6, 2}), bench_.empty<double>({6, 2})};
  rope_table(stream(), rope.cos, rope.sin, {});
  Attention layer({rmsnorm(),
                   {param("qkv", {32, kHidden}), nullptr},
                   {param("out", {kHidden, 16}), nullptr},
                   param("q_norm", {4}, 1),
                   param("k_norm", {4}, 1),
                   &alone_.tensor,
                   &alone_.context},
                  {1, 0, 4, 2, 4}, rope, 0);
  check(layer, hidden_);
}

TEST_F(Layers, MlpWithBothFormsOfGelu) {
  for (const Activation activation : {Activation::GeluTanh, Activation::GeluExact}) {
    Mlp layer({layernorm(), linear("up", 12, kHidden), linear("down", kHidden, 12), activation,
               &alone_.tensor});
    check(layer, hidden_);
  }
}

TEST_F(Layers, GatedMlp) {
  Mlp layer({rmsnorm(),
             {param("gate_up", {24, kHidden}), nullptr},
             {param("down", {kHidden, 12}), nullptr},
             Activation::None,
             &alone_.tensor});
  check(layer, hidden_);
}

TEST_F(Layers, EmbeddingWithDropout) {
  Embedding layer({param("tokens", {kVocab, kHidden}),
                   param("positions", {6, kHidden}),
                   {},
                   &alone_.tensor,
                   dropout()});
  check(layer, hidden_);
}

TEST_F(Layers, AttentionWithDropout) {
  Attention layer({layernorm(), linear("qkv", 24, kHidden), linear("out", kHidden, 8), nullptr,
                   nullptr, &alone_.tensor, &alone_.context, dropout()},
                  {1, 0, 4, 4, 2}, {}, 0);
  check(layer, hidden_);
}

TEST_F(Layers, MlpWithDropout) {
  for (const Activation activation : {Activation::GeluTanh, Activation::None}) {
    const int64_t wide = activation == Activation::None ? 24 : 12;
    Mlp layer({rmsnorm(), linear("up", wide, kHidden), linear("down", kHidden, 12), activation,
               &alone_.tensor, dropout()});
    check(layer, hidden_);
  }
}

TEST_F(Layers, HeadIsSeededByTheLossScaleAlone) {
  for (const LogitsPolicy policy : {LogitsPolicy::Keep, LogitsPolicy::Chunked}) {
    Head layer({layernorm(),
                {param("output", {32, kHidden}), nullptr},
                false,
                kVocab,
                policy,
                0,
                &alone_.tensor});
    Tensor x = bench_.random<double>({kTokens, kHidden}, "x");
    const auto value = [&] {
      Saved unused;
      const Tensor loss = layer.forward(stream(), micro_, x, unused);
      const Tensor ones = bench_.make<double>({kTokens}, std::vector<double>(kTokens, 1));
      return dot(stream(), loss, ones) * micro_.loss_scale;
    };
    Saved saved;
    layer.forward(stream(), micro_, x, saved);
    const Tensor dx = layer.backward_input(stream(), micro_, Tensor(), saved);
    layer.backward_weight(stream(), micro_, saved);
    expect_gradient(stream(), x, dx, "x", value);
    for (Param* param : layer.params())
      expect_gradient(stream(), param->value, param->grad, param->name, value);
  }
}

}  // namespace
}  // namespace sextant
