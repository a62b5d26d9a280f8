// Against PyTorch and transformers: tests/oracle/fixtures holds what they compute for tiny random
// models (make_fixtures.py says how), and these tests compute the same here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/parse.h"
#include "checkpoint/hf.h"
#include "checkpoint/load.h"
#include "config/load.h"
#include "executor/serial_model.h"
#include "formats/hf_directory.h"
#include "formats/safetensors.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "support/built.h"
#include "support/needs_gpu.h"
#include "support/temp_dir.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

// The committed fixtures, or those that tests/oracle/live.sh has just made.
std::string fixtures() {
  const char* live = std::getenv("SXT_ORACLE_FIXTURES");
  return live != nullptr ? live : source_dir() + "/tests/oracle/fixtures";
}

template <class T>
std::vector<T> values_of(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor& tensor = file.at(name);
  std::vector<T> values(tensor.data.size() / sizeof(T));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

// Fixture batches: [steps, batch, seq] tokens and targets.
struct Batches {
  explicit Batches(const SafetensorsFile& file)
      : tokens(values_of<int32_t>(file, "tokens")),
        batch(file.at("tokens").shape[file.at("tokens").shape.size() - 2]),
        seq(file.at("tokens").shape.back()) {
    if (file.find("targets") != nullptr) targets = values_of<int32_t>(file, "targets");
  }
  HostBatch host(int64_t step) const {
    HostBatch out;
    out.batch = batch;
    out.seq = seq;
    const int64_t begin = step * batch * seq, end = begin + batch * seq;
    out.tokens.assign(tokens.begin() + begin, tokens.begin() + end);
    out.targets.assign(static_cast<size_t>(batch * seq), -1);
    if (!targets.empty()) out.targets.assign(targets.begin() + begin, targets.begin() + end);
    for (int64_t i = 0; i < batch * seq; ++i)
      out.positions.push_back(static_cast<int32_t>(i % seq));
    out.starts.assign(out.tokens.size(), 0);
    return out;
  }

  std::vector<int32_t> tokens, targets;
  int64_t batch, seq;
};

std::vector<float> host_of(Stream& stream, const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  copy_floats_to_host(stream, values, tensor);
  return values;
}

// `columns` of each row of ours against theirs.
double largest_difference(const std::vector<float>& ours, int64_t width,
                          const std::vector<float>& theirs, int64_t columns) {
  double largest = 0;
  for (size_t i = 0; i < theirs.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / columns, column = static_cast<int64_t>(i) % columns;
    largest = std::max(
        largest,
        std::abs(static_cast<double>(ours[static_cast<size_t>(row * width + column)]) - theirs[i]));
  }
  return largest;
}

// The gradients of one step, times the loss scale, and its mean loss.
double run_step(SerialModel& model, const HostBatch& host, double loss_scale = 1) {
  const double scale = 1.0 / static_cast<double>(valid_tokens(host));
  model.executor().run_step({&host, 1}, scale * loss_scale, 0);
  model.params().finish_gradients(model.stream());
  model.stream().check_data();
  return model.executor().losses()[0] * scale;
}

constexpr float kFp16Scale = 1024;  // that of make_fixtures.py

class Oracle : public testing::TestWithParam<std::string> {
 protected:
  explicit Oracle(Device device = {}) : arena_(device, int64_t{512} << 20) {}

  void expect_logits();
  void expect_gradients();
  void expect_losses();

  // A Hugging Face directory as tensors of ours, in the order of the model's parameters.
  std::vector<NamedTensor> load(const std::string& directory, const std::string& name,
                                const Blueprint& blueprint) {
    const ImportReport report = import_hf(disk_, directory, dir_ / name, log_);
    SerialModel shapes(stream_, blueprint, {{}, LogitsPolicy::Keep, false});
    std::vector<NamedTensor> tensors;
    for (const Param& param : shapes.params().params())
      tensors.push_back({param.name, param.value, param.valid_rows});
    load_tensors(disk_, report.path, read_manifest(disk_, report.path), tensors, stream_,
                 LoadWhat::Weights);
    return tensors;
  }
  // Gradients of a fixture as the weights of a model, so that import brings them into our layout.
  std::vector<NamedTensor> load_gradients(const SafetensorsFile& file, const std::string& name) {
    const std::string directory = dir_ / name;
    disk_.make_directories(directory);
    replace_file(disk_, directory + "/config.json", read_text(disk_, theirs() + "/config.json"));
    {
      std::vector<StoredEntry> entries;
      for (const StoredTensor& tensor : file.tensors())
        if (tensor.name.starts_with("grad."))
          entries.push_back({tensor.name.substr(5), tensor.type, tensor.shape});
      const std::unique_ptr<FileWriter> out =
          disk_.create(directory + "/model.safetensors", OpenMode::Truncate);
      SafetensorsWriter writer(*out, entries, {{"format", "pt"}});
      for (const StoredEntry& entry : writer.order())
        writer.write(entry.name, file.at("grad." + entry.name).data);
      writer.finish();
    }
    return load(directory, "imported-" + name, blueprint());
  }
  Blueprint blueprint() {
    return make_blueprint(model_config_from_hf(read_hf_config(disk_, theirs())));
  }
  std::unique_ptr<SerialModel> model(const TransformerOptions& options = {}) {
    auto model = std::make_unique<SerialModel>(stream_, blueprint(), options);
    const std::vector<NamedTensor> weights =
        load(theirs(), concat("weights-", loads_++), blueprint());
    for (size_t i = 0; i < weights.size(); ++i)
      copy_floats_from_host(stream_, model->params().params()[i].value,
                            host_of(stream_, weights[i].tensor));
    return model;
  }
  std::string theirs() const { return fixtures() + "/" + GetParam(); }
  SafetensorsFile fixture() { return {disk_, fixtures() + "/" + GetParam() + ".safetensors"}; }

  int loads_ = 0;
  TempDir dir_;
  DiskStorage disk_;
  Log log_{LogLevel::Quiet, Color::Never};
  Arena arena_;
  Stream stream_{arena_, 2};
};

INSTANTIATE_TEST_SUITE_P(Families, Oracle,
                         testing::Values("gpt2", "llama", "llama_biased", "mistral", "qwen2",
                                         "qwen3", "mixtral", "qwen3_moe", "deepseek_v3"),
                         [](const auto& info) { return info.param; });

// The same in fp32 on a GPU.
class CudaOracle : public Oracle {
 protected:
  CudaOracle() : Oracle(device()) {}
  void SetUp() override { SXT_NEEDS_GPU(); }
  static Device device() {
    return gpu::why_unusable(0).empty() ? Device{DeviceKind::Cuda} : Device{};
  }
};

INSTANTIATE_TEST_SUITE_P(Families, CudaOracle,
                         testing::Values("gpt2", "llama", "llama_biased", "mistral", "qwen2",
                                         "qwen3", "mixtral", "qwen3_moe", "deepseek_v3"),
                         [](const auto& info) { return info.param; });

TEST_P(Oracle, GivesTheLogitsOfTransformers) {
  expect_logits();
}
TEST_P(CudaOracle, GivesTheLogitsOfTransformers) {
  expect_logits();
}

void Oracle::expect_logits() {
  const SafetensorsFile file = fixture();
  const auto ours = model();
  const Batches batches(file);
  const Tensor logits = ours->executor().forward(batches.host(0), {.output = HeadOutput::Logits});
  EXPECT_LT(largest_difference(host_of(stream_, logits), logits.dim(1),
                               values_of<float>(file, "logits"), blueprint().model.vocab),
            1e-4);
}

TEST_P(Oracle, GivesTheGradientsOfPyTorch) {
  expect_gradients();
}
TEST_P(CudaOracle, GivesTheGradientsOfPyTorch) {
  expect_gradients();
}

void Oracle::expect_gradients() {
  const SafetensorsFile file = fixture();
  const std::vector<NamedTensor> wanted = load_gradients(file, "gradients");
  const auto ours = model();
  run_step(*ours, Batches(file).host(0));
  ASSERT_EQ(wanted.size(), ours->params().params().size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (ours->params().params()[i].router_state != RouterState::None) continue;  // no gradient
    const std::vector<float> theirs = host_of(stream_, wanted[i].tensor);
    const std::vector<float> mine = host_of(stream_, ours->params().params()[i].grad);
    double largest = 0, difference = 0;
    for (size_t j = 0; j < theirs.size(); ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(theirs[j])));
      difference = std::max(difference, std::abs(static_cast<double>(theirs[j]) - mine[j]));
    }
    EXPECT_GT(largest, 0) << wanted[i].name;
    EXPECT_LE(difference, 1e-4 * largest) << wanted[i].name;
  }
}

// The root mean square error of each gradient, relative to its size.
std::vector<double> errors_of(const std::vector<std::vector<float>>& got,
                              const std::vector<std::vector<float>>& wanted) {
  std::vector<double> errors;
  for (size_t i = 0; i < got.size(); ++i) {
    double error = 0, size = 0;
    for (size_t j = 0; j < got[i].size(); ++j) {
      error += std::pow(static_cast<double>(got[i][j]) - wanted[i][j], 2);
      size += std::pow(wanted[i][j], 2);
    }
    errors.push_back(std::sqrt(error / size));
  }
  return errors;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// PyTorch under autocast keeps fp32 weights, norms and a residual stream in fp32; here all of these
// are narrow. docs/precision.md has the numbers.
class NarrowOracle : public Oracle {
 protected:
  using Gradients = std::vector<std::vector<float>>;

  void SetUp() override {
    file_.emplace(fixture());
    exact_ = floats_of(load_gradients(*file_, "gradients"));
    for (const NamedTensor& tensor : load_gradients(*file_, "names")) names_.push_back(tensor.name);
  }
  Gradients floats_of(const std::vector<NamedTensor>& tensors) {
    Gradients all;
    for (const NamedTensor& tensor : tensors) all.push_back(host_of(stream_, tensor.tensor));
    return all;
  }
  std::vector<double> errors_of_autocast(const std::string& prefix) {
    const std::string path = fixtures() + "/" + prefix + "_" + GetParam() + ".safetensors";
    return errors_of(floats_of(load_gradients(SafetensorsFile(disk_, path), prefix)), exact_);
  }
  std::vector<double> errors_in(const std::vector<std::string>& precision, float loss_scale = 1) {
    const Config config = parse_config("[model]\npreset = \"tiny\"\n", "test", precision).config;
    TransformerOptions options;
    options.types = number_types(config.precision);
    const auto ours = model(options);
    run_step(*ours, Batches(*file_).host(0), loss_scale);
    Gradients gradients;
    for (const Param& param : ours->params().params()) {
      gradients.push_back(host_of(stream_, param.grad));
      for (float& value : gradients.back()) value /= loss_scale;
    }
    return errors_of(gradients, exact_);
  }
  // Each tensor is off by at most so many times what autocast is, and the mean by so many.
  struct Limits {
    double tensor, mean;
  };
  void expect_near(const std::vector<double>& errors, const std::vector<double>& autocast,
                   const Limits& limits, const std::string& what) {
    for (size_t i = 0; i < errors.size(); ++i)
      EXPECT_LE(errors[i], limits.tensor * autocast[i] + 1e-3) << what << " " << names_[i];
    EXPECT_LE(mean(errors), limits.mean * mean(autocast)) << what;
    double farthest = 0;
    for (size_t i = 0; i < errors.size(); ++i)
      farthest = std::max(farthest, errors[i] / autocast[i]);
    RecordProperty(what, concat("mean ", mean(errors), ", of autocast ", mean(autocast),
                                ", farthest tensor ", farthest, " times"));
  }

  std::optional<SafetensorsFile> file_;
  Gradients exact_;
  std::vector<std::string> names_;
};

INSTANTIATE_TEST_SUITE_P(Families, NarrowOracle, testing::Values("gpt2", "llama", "qwen3"),
                         [](const auto& info) { return info.param; });

TEST_P(NarrowOracle, GradientsAreAsFarOffAsThoseOfAutocast) {
  const std::vector<double> autocast = errors_of_autocast("autocast");
  expect_near(errors_in({"precision.compute=bf16"}), autocast, {2, 2}, "bf16");
  expect_near(errors_in({"precision.compute=fp16"}, kFp16Scale),
              errors_of_autocast("autocast_fp16"), {2, 2}, "fp16");
  for (const char* recipe : {"tensor", "delayed", "block"})
    expect_near(errors_in({"precision.compute=fp8", concat("precision.fp8_recipe=", recipe)}),
                autocast, {30, 20}, concat("fp8_", recipe));
}

// Finer numbers are nearer, tensor by tensor.
TEST_P(NarrowOracle, ErrorsFollowTheBitsOfTheType) {
  const std::vector<double> fp16 = errors_in({"precision.compute=fp16"}, kFp16Scale),
                            bf16 = errors_in({"precision.compute=bf16"}),
                            fp8 = errors_in({"precision.compute=fp8"});
  for (size_t i = 0; i < bf16.size(); ++i) {
    EXPECT_LT(fp16[i], 0.5 * bf16[i]) << names_[i];
    EXPECT_LT(2 * bf16[i], fp8[i]) << names_[i];
  }
}

TEST_P(Oracle, GivesTheLossesOfTenAdamWSteps) {
  expect_losses();
}
TEST_P(CudaOracle, GivesTheLossesOfTenAdamWSteps) {
  expect_losses();
}

void Oracle::expect_losses() {
  const SafetensorsFile file = fixture();
  const std::vector<double> wanted = values_of<double>(file, "losses");
  ASSERT_EQ(wanted.size(), 10u);
  const auto ours = model();
  OptimConfig settings;  // those of tests/oracle/models.py
  settings.beta2 = 0.95;
  settings.weight_decay = 0.1;
  settings.router_bias_rate = 0;  // transformers leaves the bias as it is
  Optimizer optimizer(stream_, ours->params().owned(), settings);
  const Batches batches(file);
  GradientSquares squares(stream_, ours->params().owned(), {});
  for (size_t step = 0; step < wanted.size(); ++step) {
    const double loss = run_step(*ours, batches.host(static_cast<int64_t>(step)));
    EXPECT_NEAR(loss, wanted[step], 1e-4 * wanted[step]) << "step " << step;
    squares.sum(stream_);
    optimizer.set_scalars(stream_, static_cast<int64_t>(step), 3e-3);
    clip(stream_, optimizer.scalars(), squares.squares(), 1.0);
    optimizer.step(stream_);
  }
}

TEST_P(Oracle, TransformersGivesOurLogitsForOurExport) {
  const SafetensorsFile file(disk_, fixtures() + "/ours_" + GetParam() + ".safetensors");
  const std::string sizes = read_text(disk_, fixtures() + "/ours_" + GetParam() + ".toml");
  const ResolvedConfig resolved = parse_config(sizes, "ours", {});
  SerialModel ours(stream_, make_blueprint(resolved.config.model), {});
  ours.transformer().initialize(stream_, resolved.config.train.seed);
  const Tensor logits =
      ours.executor().forward(Batches(file).host(0), {.output = HeadOutput::Logits});
  EXPECT_LT(largest_difference(host_of(stream_, logits), logits.dim(1),
                               values_of<float>(file, "logits"), resolved.config.model.vocab),
            1e-4);
}

}  // namespace
}  // namespace sextant
