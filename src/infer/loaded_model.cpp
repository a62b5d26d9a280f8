#include "infer/loaded_model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "checkpoint/hf.h"
#include "checkpoint/load.h"
#include "config/load.h"
#include "tensor/convert.h"
#include "tensor/copy.h"
#include "tensor/gpu.h"
#include "train/preflight.h"
#include "train/run_device.h"
#include "train/same_model.h"

namespace sextant {
namespace {

// An arena of a GPU takes its limit at once: some is left for CUDA's libraries and other programs.
int64_t arena_limit(const Config& config) {
  if (config.run.memory_limit > 0) return config.run.memory_limit;
  if (config.run.device == RunDevice::Cpu) return physical_memory();
  return gpu::memory_of(run_device(config).index).free / 10 * 9;
}

}  // namespace

LoadedModel::LoadedModel(Storage& storage, const std::string& path,
                         std::span<const std::string> overrides)
    : path_(resolve_weights(storage, path)) {
  if (is_hf_directory(storage, path_)) {
    Log silent(LogLevel::Quiet, Color::Never);
    read_hf_model(storage, path_, silent, [&](const HfModel& hf) {
      tokenizer_ = hf.tokenizer;
      make_model(hf.config, overrides);
      for (const TensorSource& source : hf.tensors) fill(source);
    });
    return;
  }
  const Manifest manifest = read_manifest(storage, path_);
  tokenizer_ = read_tokenizer(storage, path_, manifest);
  make_model(manifest.state.config, overrides);
  std::vector<NamedTensor> tensors;
  for (const Param& param : model_->params().params())
    tensors.push_back({param.name, param.value, param.valid_rows});
  load_tensors(storage, path_, manifest, tensors, *stream_, LoadWhat::Weights);
}

void LoadedModel::make_model(const std::string& config, std::span<const std::string> overrides) {
  config_ = parse_config(config, path_, overrides).config;
  check_same_model(parse_config(config, path_, {}).config.model, config_.model, path_);
  const Device device = run_device(config_);
  arena_ = std::make_unique<Arena>(device, arena_limit(config_));
  stream_ = std::make_unique<Stream>(*arena_, thread_count(config_));
  NumberTypes types = number_types(config_.precision);
  types.linear = types.compute;  // inference does not quantise
  // Only the loss is needed: chunked logits take less memory and have the same bits.
  model_ = std::make_unique<SerialModel>(*stream_, make_blueprint(config_.model),
                                         TransformerOptions{types, LogitsPolicy::Chunked,
                                                            /*gradients=*/false});
}

// Copies an f32 tensor of a Hugging Face directory; rows beyond its own become zero.
void LoadedModel::fill(const TensorSource& source) {
  const std::span<const Param> params = model_->params().params();
  const auto param = std::ranges::find(params, source.name, &Param::name);
  SXT_CHECK(param != params.end(), Internal, "no parameter ", source.name);
  Tensor value = param->value;
  const Tensor flat = value.view(Shape{value.elements()});
  fill_zero(*stream_, value);
  int64_t done = 0;
  source.produce([&](std::span<const std::byte> bytes) {
    const int64_t count = static_cast<int64_t>(bytes.size()) / size_of(DType::F32);
    std::vector<std::byte> narrow(static_cast<size_t>(count * size_of(flat.dtype())));
    convert(flat.dtype(), narrow.data(), DType::F32, bytes.data(), count);
    Tensor to = flat.slice(done, done + count);
    copy_bytes_from_host(*stream_, to, narrow);
    done += count;
  });
}

int64_t LoadedModel::cache_bytes() const {
  const ModelConfig& model = config_.model;
  return 2 * model.layers * model.seq * model.kv_heads * model.head_dim *
         size_of(number_types(config_.precision).compute);
}

namespace {

std::vector<float> logits_of(LoadedModel& loaded, std::span<const int32_t> tokens) {
  HostBatch host;
  fill_row(host, tokens, 0);
  const Tensor logits = loaded.model().executor().forward(host, {.output = HeadOutput::Logits});
  std::vector<float> values(static_cast<size_t>(logits.elements()));
  copy_floats_to_host(loaded.stream(), values, logits);
  return values;
}

}  // namespace

double max_logit_difference(LoadedModel& a, LoadedModel& b) {
  const ModelConfig& model = a.config().model;
  SXT_CHECK(model.vocab == b.config().model.vocab && model.seq == b.config().model.seq, Data,
            "models of other sizes: vocab ", model.vocab, " and ", b.config().model.vocab, ", seq ",
            model.seq, " and ", b.config().model.seq);
  const Random random(0, "logit comparison");
  std::vector<int32_t> tokens(static_cast<size_t>(std::min<int64_t>(model.seq, 128)));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(random.below(static_cast<uint64_t>(model.vocab), i));
  const std::vector<float> left = logits_of(a, tokens), right = logits_of(b, tokens);
  double largest = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    const double difference = std::abs(static_cast<double>(left[i]) - right[i]);
    if (std::isnan(difference)) return difference;  // std::max would ignore it
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace sextant
