#include "model/transformer.h"

#include <gtest/gtest.h>

#include "support/agree.h"
#include "support/gradient_check.h"
#include "support/tiny_model.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr int64_t kMemory = int64_t{256} << 20;

struct Case {
  Family family;
  LogitsPolicy logits;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const char* family = info.param.family == Family::Gpt2    ? "Gpt2"
                       : info.param.family == Family::Llama ? "Llama"
                                                            : "Qwen3";
  return std::string(family) + (info.param.logits == LogitsPolicy::Keep ? "Keep" : "Chunked");
}

class EveryTransformer : public testing::TestWithParam<Case> {
 protected:
  Transformer make(Stream& stream, DType dtype, ModelConfig config) {
    Transformer model(stream, make_blueprint(config), {all_of(dtype), GetParam().logits, true});
    model.initialize(stream, 1);
    return model;
  }
  Transformer make(Stream& stream, DType dtype) {
    return make(stream, dtype, tiny_config(GetParam().family));
  }
  void run_step(Stream& stream, Transformer& model, const Micro& micro) {
    Activations activations = model.make_activations();
    model.start_step(stream);
    model.forward(stream, micro, activations);
    model.backward(stream, micro, activations);
  }
};

INSTANTIATE_TEST_SUITE_P(Families, EveryTransformer,
                         testing::Values(Case{Family::Gpt2, LogitsPolicy::Keep},
                                         Case{Family::Gpt2, LogitsPolicy::Chunked},
                                         Case{Family::Llama, LogitsPolicy::Keep},
                                         Case{Family::Llama, LogitsPolicy::Chunked},
                                         Case{Family::Qwen3, LogitsPolicy::Keep}),
                         name_of);

TEST_P(EveryTransformer, HasTheGradientsOfFiniteDifferences) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 2);
  Transformer model = make(stream, DType::F64);
  const Micro micro = tiny_micro(stream, 2, 6, 19);
  run_step(stream, model, micro);
  for (Param& param : model.params()) {
    // Every element of small parameters, the first rows of large ones.
    Tensor value = param.value.view({param.value.elements()});
    value = value.slice(0, std::min<int64_t>(value.elements(), 24));
    const Tensor grad = param.grad.view({param.grad.elements()}).slice(0, value.elements());
    expect_gradient(
        stream, value, grad, param.name, [&] { return total_loss(stream, model, micro); }, 1e-7);
  }
}

TEST_P(EveryTransformer, HasTheGradientsOfFiniteDifferencesWithDropoutToo) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 2);
  ModelConfig config = tiny_config(GetParam().family);
  config.dropout = 0.3;
  Transformer model = make(stream, DType::F64, config);
  Micro micro = tiny_micro(stream, 2, 6, 19);
  const double evaluated = total_loss(stream, model, micro);
  number_tokens(stream, micro);
  micro.step = 3;
  EXPECT_NE(total_loss(stream, model, micro), evaluated);
  run_step(stream, model, micro);
  for (Param& param : model.params()) {
    Tensor value = param.value.view({param.value.elements()});
    value = value.slice(0, std::min<int64_t>(value.elements(), 8));
    const Tensor grad = param.grad.view({param.grad.elements()}).slice(0, value.elements());
    expect_gradient(
        stream, value, grad, param.name, [&] { return total_loss(stream, model, micro); }, 1e-7);
  }
}

TEST_P(EveryTransformer, AddsTheGradientsOfLaterMicroBatches) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 1);
  Transformer model = make(stream, DType::F64);
  const Micro micro = tiny_micro(stream, 2, 6, 19);
  run_step(stream, model, micro);
  std::vector<std::vector<double>> once;
  for (const Param& param : model.params()) {
    once.emplace_back(static_cast<size_t>(param.grad.elements()));
    copy_to_host<double>(stream, once.back(), param.grad);
  }
  Activations activations = model.make_activations();
  model.start_step(stream, 3);
  for (int i = 0; i < 3; ++i) {
    model.forward(stream, micro, activations);
    model.backward(stream, micro, activations);
  }
  for (size_t i = 0; i < once.size(); ++i) {
    const Param& param = model.params()[i];
    std::vector<double> thrice(once[i].size());
    copy_to_host<double>(stream, thrice, param.grad);
    for (double& value : once[i]) value *= 3;
    expect_close(thrice, once[i], 1e-14, param.name);
  }
}

TEST_P(EveryTransformer, GivesTheSameBitsOnAnyNumberOfThreadsAndTouchesMemoryOnlyInOps) {
  expect_same_bits([&](Workbench& bench) {
    ModelConfig config = tiny_config(GetParam().family);
    config.hidden = 32;
    config.head_dim = 8;
    config.ffn = 72;
    config.vocab = 301;
    Transformer model = make(bench.stream(), DType::F32, config);
    const Micro micro = tiny_micro(bench.stream(), 3, 6, 301);
    run_step(bench.stream(), model, micro);
    std::vector<std::byte> bits;
    for (const Param& param : model.params()) {
      const std::vector<std::byte> bytes = bench.bytes(param.grad);
      bits.insert(bits.end(), bytes.begin(), bytes.end());
    }
    return bits;
  });
}

TEST_P(EveryTransformer, AllocatesNothingFromTheSecondStepOn) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 2);
  Transformer model = make(stream, DType::F32);
  const Micro micro = tiny_micro(stream, 3, 6, 19);
  Activations activations = model.make_activations();
  int64_t allocations = 0;
  for (int step = 0; step < 4; ++step) {
    if (step == 2) allocations = arena.allocations();
    model.start_step(stream);
    model.forward(stream, micro, activations);
    model.backward(stream, micro, activations);
  }
  EXPECT_EQ(arena.allocations(), allocations);
}

TEST_P(EveryTransformer, KeepsNothingAfterBackward) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 1);
  Transformer model = make(stream, DType::F32);
  const Micro micro = tiny_micro(stream, 2, 6, 19);
  const int64_t before = arena.current(Category::Activations);
  Activations activations = model.make_activations();
  model.start_step(stream);
  model.forward(stream, micro, activations);
  EXPECT_GT(arena.current(Category::Activations), before);
  model.backward(stream, micro, activations);
  EXPECT_EQ(arena.current(Category::Activations), before);
}

TEST_P(EveryTransformer, ACacheGivesTheLogitsOfTheWholeSequence) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 2);
  Transformer model = make(stream, DType::F64);
  Micro whole = tiny_micro(stream, 1, 6, 19);
  const Tensor wanted = model.logits(stream, whole, Transformer::Rows::All);
  const int64_t width = wanted.dim(1);
  KvCache cache = model.make_cache(stream, 1, 6);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 3}, {3, 4}, {4, 6}}) {
    Micro part = whole;
    part.seq = end - begin;
    part.tokens = whole.tokens.slice(begin, end);
    part.positions = whole.positions.slice(begin, end);
    part.cache = &cache;
    const Tensor got = model.logits(stream, part, Transformer::Rows::Last);
    cache.past = end;
    std::vector<double> a(static_cast<size_t>(width)), b(a.size());
    copy_to_host<double>(stream, a, got);
    copy_to_host<double>(stream, b, wanted.slice(end - 1, end));
    expect_close(a, b, 1e-12);
  }
}

TEST(Transformer, ChunkedLogitsGiveTheBitsOfKeptOnes) {
  std::vector<std::vector<std::byte>> bits;
  for (const LogitsPolicy policy : {LogitsPolicy::Keep, LogitsPolicy::Chunked}) {
    Workbench bench(2, DeviceKind::Cpu);
    ModelConfig config = tiny_config(Family::Gpt2);
    config.vocab = 2 * Head::kChunk + 77;
    Transformer model(bench.stream(), make_blueprint(config), {{}, policy, true});
    model.initialize(bench.stream(), 1);
    const Micro micro = tiny_micro(bench.stream(), 2, 6, config.vocab);
    Activations activations = model.make_activations();
    model.start_step(bench.stream());
    model.forward(bench.stream(), micro, activations);
    model.backward(bench.stream(), micro, activations);
    bits.emplace_back();
    for (const Param& param : model.params()) {
      const std::vector<std::byte> bytes = bench.bytes(param.grad);
      bits.back().insert(bits.back().end(), bytes.begin(), bytes.end());
    }
  }
  EXPECT_TRUE(bits[0] == bits[1]);
}

TEST(Transformer, PackedDocumentsGiveTheLossOfSeparateOnes) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 1);
  for (const Family family : {Family::Gpt2, Family::Llama}) {
    Transformer model(stream, make_blueprint(tiny_config(family)),
                      {all_of(DType::F64), LogitsPolicy::Keep, true});
    model.initialize(stream, 1);
    const Micro packed = tiny_micro(stream, 2, 6, 19);  // row 1: two documents of 3
    const Tensor together = model.loss(stream, packed);
    Micro second = packed;
    second.batch = 1;
    second.seq = 3;
    second.tokens = packed.tokens.slice(9, 12);
    second.targets = packed.targets.slice(9, 12);
    second.positions = packed.positions.slice(6, 9);  // 0, 1, 2
    second.starts = packed.starts.slice(6, 9);        // all 0
    const Tensor alone = model.loss(stream, second);
    std::vector<double> a(3), b(3);
    copy_to_host<double>(stream, a, together.slice(9, 12));
    copy_to_host<double>(stream, b, alone);
    expect_close(a, b, 1e-13);
  }
}

TEST(Transformer, PaddingOfTheVocabularyStaysZeroAndGetsNoGradient) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 1);
  Transformer model(stream, make_blueprint(tiny_config(Family::Gpt2)), {});
  model.initialize(stream, 1);
  const Micro micro = tiny_micro(stream, 2, 6, 19);
  Activations activations = model.make_activations();
  model.start_step(stream);
  model.forward(stream, micro, activations);
  model.backward(stream, micro, activations);
  const Param& tokens = model.params()[0];
  ASSERT_EQ(tokens.value.dim(0), kVocabMultiple);
  for (const Tensor& tensor : {tokens.value, tokens.grad}) {
    std::vector<float> rows(static_cast<size_t>(tensor.elements()));
    copy_to_host<float>(stream, rows, tensor);
    for (size_t i = static_cast<size_t>(tokens.valid_rows * tensor.dim(1)); i < rows.size(); ++i)
      ASSERT_EQ(rows[i], 0);
  }
}

}  // namespace
}  // namespace sextant
