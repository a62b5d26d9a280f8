#include "executor/serial_model.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "support/agree.h"
#include "support/gradient_check.h"
#include "support/tiny_batch.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr int64_t kMemory = int64_t{256} << 20;

struct Case {
  Family family;
  LogitsPolicy logits;
  RopeType rope = RopeType::Llama3;
  bool biases = false;
  int64_t window = 0;
};

ModelConfig config_of(const Case& wanted) {
  ModelConfig config = tiny_config(wanted.family);
  if (wanted.rope != RopeType::Llama3)
    config.rope_scaling = {.factor = 3, .original_seq = 4, .type = wanted.rope, .beta_fast = 2};
  config.attention_bias = config.mlp_bias = wanted.biases;
  config.sliding_window = wanted.window;
  return config;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const char* family = info.param.family == Family::Gpt2      ? "Gpt2"
                       : info.param.family == Family::Llama   ? "Llama"
                       : info.param.family == Family::Mistral ? "Mistral"
                       : info.param.family == Family::Qwen2   ? "Qwen2"
                       : info.param.family == Family::Mixtral ? "Mixtral"
                                                              : "Qwen3";
  const char* rope = info.param.rope == RopeType::Yarn     ? "Yarn"
                     : info.param.rope == RopeType::Linear ? "Linear"
                                                           : "";
  return concat(family, rope, info.param.biases ? "Biased" : "",
                info.param.logits == LogitsPolicy::Keep ? "Keep" : "Chunked");
}

class EverySerialModel : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<SerialModel> make(Stream& stream, DType dtype, ModelConfig config, int micros = 1,
                                    Recompute recompute = Recompute::None) {
    auto model = std::make_unique<SerialModel>(
        stream, make_blueprint(config), TransformerOptions{all_of(dtype), GetParam().logits, true},
        micros, recompute);
    model->transformer().initialize(stream, 1);
    return model;
  }
  std::unique_ptr<SerialModel> make(Stream& stream, DType dtype, int micros = 1) {
    return make(stream, dtype, config_of(GetParam()), micros);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Families, EverySerialModel,
    testing::Values(
        Case{Family::Gpt2, LogitsPolicy::Keep}, Case{Family::Gpt2, LogitsPolicy::Chunked},
        Case{Family::Llama, LogitsPolicy::Keep}, Case{Family::Llama, LogitsPolicy::Chunked},
        Case{Family::Qwen3, LogitsPolicy::Keep}, Case{Family::Mixtral, LogitsPolicy::Keep},
        Case{Family::Llama, LogitsPolicy::Keep, RopeType::Yarn},
        Case{Family::Qwen3, LogitsPolicy::Keep, RopeType::Linear},
        Case{Family::Llama, LogitsPolicy::Keep, RopeType::Llama3, true},
        Case{Family::Qwen2, LogitsPolicy::Chunked},
        Case{Family::Mistral, LogitsPolicy::Keep, RopeType::Yarn, false, 3}),
    name_of);

// Checks every element of small parameters, the first ones of large parameters.
void expect_gradients(SerialModel& model, const HostBatch& host, int64_t step, int64_t elements) {
  Stream& stream = model.stream();
  for (Param& param : model.params().params()) {
    Tensor value = param.value.view({param.value.elements()});
    value = value.slice(0, std::min<int64_t>(value.elements(), elements));
    const Tensor grad = param.grad.view({param.grad.elements()}).slice(0, value.elements());
    expect_gradient(
        stream, value, grad, param.name, [&] { return total_loss(model, host, step); }, 1e-7);
  }
}

std::vector<std::byte> gradient_bits(Workbench& bench, SerialModel& model) {
  std::vector<std::byte> bits;
  for (const Param& param : model.params().params()) {
    const std::vector<std::byte> bytes = bench.bytes(param.grad);
    bits.insert(bits.end(), bytes.begin(), bytes.end());
  }
  return bits;
}

TEST_P(EverySerialModel, HasTheGradientsOfFiniteDifferences) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 2);
  const auto model = make(stream, DType::F64);
  const HostBatch host = tiny_batch(2, 6, 19);
  run_step(*model, host);
  expect_gradients(*model, host, 0, 24);
}

TEST_P(EverySerialModel, HasTheGradientsOfFiniteDifferencesWithDropoutToo) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 2);
  ModelConfig config = config_of(GetParam());
  config.dropout = 0.3;
  const auto model = make(stream, DType::F64, config);
  HostBatch host = tiny_batch(2, 6, 19);
  const double evaluated = total_loss(*model, host);
  number_tokens(host, 0);
  EXPECT_NE(total_loss(*model, host, 3), evaluated);
  run_step(*model, host, 3);
  expect_gradients(*model, host, 3, 8);
}

TEST_P(EverySerialModel, AddsTheGradientsOfLaterMicroBatches) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 1);
  const auto model = make(stream, DType::F64), longer = make(stream, DType::F64, 3);
  const HostBatch host = tiny_batch(2, 6, 19);
  run_step(*model, host);
  run_step(*longer, host, 0, 3);
  for (size_t i = 0; i < model->params().params().size(); ++i) {
    const Param& param = model->params().params()[i];
    std::vector<double> once(static_cast<size_t>(param.grad.elements())), thrice(once.size());
    copy_to_host<double>(stream, once, param.grad);
    copy_to_host<double>(stream, thrice, longer->params().params()[i].grad);
    for (double& value : once) value *= 3;
    expect_close(thrice, once, 1e-14, param.name);
  }
}

ModelConfig wider(Family family) {
  ModelConfig config = tiny_config(family);
  config.hidden = 32;
  config.head_dim = 8;
  config.ffn = 72;
  config.vocab = 301;
  return config;
}

TEST_P(EverySerialModel, GivesTheSameBitsOnAnyNumberOfThreadsAndTouchesMemoryOnlyInOps) {
  expect_same_bits([&](Workbench& bench) {
    const auto model = make(bench.stream(), DType::F32, wider(GetParam().family));
    run_step(*model, tiny_batch(3, 6, 301));
    return gradient_bits(bench, *model);
  });
}

TEST_P(EverySerialModel, RecomputationChangesNoBitAndKeepsLess) {
  std::vector<std::vector<std::byte>> bits;
  std::vector<int64_t> kept;
  ModelConfig config = wider(GetParam().family);
  config.dropout = 0.2;
  HostBatch host = tiny_batch(3, 6, 301);
  number_tokens(host, 0);
  for (const Recompute recompute :
       {Recompute::None, Recompute::Cheap, Recompute::Selective, Recompute::Full}) {
    Workbench bench(2, DeviceKind::Guarded);
    const auto model = make(bench.stream(), DType::F32, config, 2, recompute);
    model->executor().on_action = [&](const Action& action) {
      if (action.kind == Kind::F && action.micro == 1)
        kept.push_back(bench.arena().current(Category::Activations));
    };
    run_step(*model, host, 4, 2);
    bits.push_back(gradient_bits(bench, *model));
  }
  for (size_t i = 1; i < bits.size(); ++i) {
    EXPECT_TRUE(bits[i] == bits[0]) << i;
    EXPECT_LT(kept[i], kept[0]) << i;
  }
  EXPECT_LT(kept[3], kept[2]);
}

TEST_P(EverySerialModel, AllocatesNothingFromTheSecondStepOn) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 2);
  const auto model = make(stream, DType::F32);
  const HostBatch host = tiny_batch(3, 6, 19);
  int64_t allocations = 0;
  for (int step = 0; step < 4; ++step) {
    if (step == 2) allocations = arena.allocations();
    run_step(*model, host);
  }
  EXPECT_EQ(arena.allocations(), allocations);
}

TEST_P(EverySerialModel, KeepsNothingAfterBackward) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 1);
  const auto model = make(stream, DType::F32);
  const int64_t before = arena.current(Category::Activations);
  int64_t between = 0;
  model->executor().on_action = [&](const Action& action) {
    if (action.kind == Kind::F) between = arena.current(Category::Activations);
  };
  run_step(*model, tiny_batch(2, 6, 19));
  EXPECT_GT(between, before);
  EXPECT_EQ(arena.current(Category::Activations), before);
}

TEST_P(EverySerialModel, ACacheGivesTheLogitsOfTheWholeSequence) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 2);
  const auto model = make(stream, DType::F64);
  const HostBatch whole = tiny_batch(1, 6, 19);
  const Tensor wanted = model->executor().forward(whole, {.output = HeadOutput::Logits});
  const int64_t width = wanted.dim(1);
  KvCache cache = model->transformer().make_cache(stream, 1, 6);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 3}, {3, 4}, {4, 6}}) {
    const Tensor got = model->executor().forward(
        tokens_of(whole, begin, end), {.output = HeadOutput::LastLogits, .cache = &cache});
    cache.past = end;
    std::vector<double> a(static_cast<size_t>(width)), b(a.size());
    copy_to_host<double>(stream, a, got);
    copy_to_host<double>(stream, b, wanted.slice(end - 1, end));
    expect_close(a, b, 1e-12);
  }
}

// What a recorded step relies on, which is launched without a run.
TEST(SerialModel, AStepAfterAnEvaluationOfFewerHasTheLossesOfAllItsMicros) {
  constexpr int kMicros = 3;
  Workbench bench;
  SerialModel model(bench.stream(), make_blueprint(tiny_config(Family::Llama)),
                    {all_of(DType::F32), LogitsPolicy::Keep, true}, kMicros);
  model.transformer().initialize(bench.stream(), 1);
  const HostBatch host = tiny_batch(2, 6, 19), other = tiny_batch(1, 6, 19);
  Executor& executor = model.executor();
  run_step(model, host, 0, kMicros);
  const std::vector<double> step(executor.losses().begin(), executor.losses().end());
  ASSERT_EQ(step.size(), 3U);
  const double* const address = executor.losses().data();
  const std::span<double> evaluated = executor.evaluate({&other, 1});
  ASSERT_EQ(evaluated.size(), 1U);
  const double loss = evaluated[0];
  EXPECT_NE(loss, step[0]);
  executor.set_step(1, 1, 1);
  const std::span<double> losses = executor.losses();
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_EQ(losses.data(), address);
  EXPECT_EQ(losses[0], loss);  // until the step is launched
  EXPECT_EQ(losses[1], step[1]);
  EXPECT_EQ(losses[2], step[2]);
}

TEST(SerialModel, ChunkedLogitsGiveTheBitsOfKeptOnes) {
  std::vector<std::vector<std::byte>> bits;
  for (const LogitsPolicy policy : {LogitsPolicy::Keep, LogitsPolicy::Chunked}) {
    Workbench bench(2, DeviceKind::Cpu);
    ModelConfig config = tiny_config(Family::Gpt2);
    config.vocab = 2 * Head::kChunk + 77;
    SerialModel model(bench.stream(), make_blueprint(config), {{}, policy, true});
    model.transformer().initialize(bench.stream(), 1);
    run_step(model, tiny_batch(2, 6, config.vocab));
    bits.push_back(gradient_bits(bench, model));
  }
  EXPECT_TRUE(bits[0] == bits[1]);
}

TEST(SerialModel, PackedDocumentsGiveTheLossOfSeparateOnes) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 1);
  for (const Family family : {Family::Gpt2, Family::Llama}) {
    SerialModel model(stream, make_blueprint(tiny_config(family)),
                      {all_of(DType::F64), LogitsPolicy::Keep, true});
    model.transformer().initialize(stream, 1);
    const HostBatch packed = tiny_batch(2, 6, 19);  // row 1: two documents of 3
    const Tensor together = model.executor().forward(packed, {});
    HostBatch second = tokens_of(packed, 9, 12);
    second.positions = {0, 1, 2};
    second.starts = {0, 0, 0};
    const Tensor alone = model.executor().forward(second, {});
    std::vector<double> a(3), b(3);
    copy_to_host<double>(stream, a, together.slice(9, 12));
    copy_to_host<double>(stream, b, alone);
    expect_close(a, b, 1e-13);
  }
}

TEST(SerialModel, PaddingOfTheVocabularyStaysZeroAndGetsNoGradient) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 1);
  SerialModel model(stream, make_blueprint(tiny_config(Family::Gpt2)), {});
  model.transformer().initialize(stream, 1);
  run_step(model, tiny_batch(2, 6, 19));
  const Param& tokens = model.params().params()[0];
  ASSERT_EQ(tokens.value.dim(0), kVocabMultiple);
  for (const Tensor& tensor : {tokens.value, tokens.grad}) {
    std::vector<float> rows(static_cast<size_t>(tensor.elements()));
    copy_to_host<float>(stream, rows, tensor);
    for (size_t i = static_cast<size_t>(tokens.valid_rows * tensor.dim(1)); i < rows.size(); ++i)
      ASSERT_EQ(rows[i], 0);
  }
}

TEST(SerialModel, DropsWhereTheModelHasAChance) {
  Arena arena(Device{}, kMemory);
  Stream stream(arena, 1);
  HostBatch host = tiny_batch(2, 6, 19);
  number_tokens(host, 0);
  const auto loss = [&](double p, uint64_t seed, int64_t step) {
    ModelConfig config = tiny_config(Family::Gpt2);
    config.dropout = p;
    TransformerOptions options;
    options.seed = seed;
    SerialModel model(stream, make_blueprint(config), options);
    model.transformer().initialize(stream, 1);
    return total_loss(model, host, step);
  };
  EXPECT_EQ(loss(0.1, 1, 0), loss(0.1, 1, 0));
  EXPECT_NE(loss(0.1, 1, 0), loss(0.1, 2, 0));
  EXPECT_NE(loss(0.1, 1, 0), loss(0.1, 1, 1));
  EXPECT_EQ(loss(0, 1, 0), loss(0, 2, 1));
}

}  // namespace
}  // namespace sextant
