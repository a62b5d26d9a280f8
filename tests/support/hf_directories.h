#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "blueprint/blueprint.h"
#include "checkpoint/hf.h"
#include "checkpoint/hf_names.h"
#include "checkpoint/load.h"
#include "checkpoint/reader.h"
#include "checkpoint/save.h"
#include "config/load.h"
#include "formats/hf_directory.h"
#include "support/temp_dir.h"
#include "support/unsynced_disk.h"

namespace sextant {

inline ModelConfig small_model(Family family, bool tied) {
  ModelConfig model;
  model.family = family;
  model.layers = 2;
  model.hidden = 8;
  model.heads = 4;
  model.kv_heads = family == Family::Gpt2 ? 4 : 2;
  model.head_dim = family == Family::Qwen3 ? 4 : 2;
  model.ffn = has_experts(family) ? 0 : 6;
  if (has_experts(family)) {
    model.experts = 3;
    model.experts_per_token = 2;
    model.expert_ffn = 4;
  }
  model.vocab = 5;
  model.seq = 7;
  model.tied = tied;
  if (family == Family::Mistral) model.sliding_window = 3;
  model.norm_eps = 1e-6;
  if (family == Family::Llama) model.rope_scaling = {8, 1, 4, 16};
  if (family != Family::Gpt2) model.rope_theta = 500000;
  model.gelu_exact = family == Family::Gpt2;
  return model;
}

// Names the element of a tensor of theirs, exact in every type: tensors of a test differ by `code`.
inline float element(int code, int64_t row, int64_t column) {
  return static_cast<float>(code * 64 + row * 8 + column);
}

class HfTest : public testing::Test {
 protected:
  // Weights of theirs from a function of their names and elements, with config.json.
  using Fill = std::function<float(const std::string&, int64_t)>;
  void write_theirs(const std::string& dir, const ModelConfig& model,
                    const std::vector<StoredEntry>& entries, const Fill& fill) {
    const std::vector<HfShard> shards = plan_hf_shards(entries);
    write_hf_directory(disk_, dir, hf_config_from_model(model, DType::F32), shards);
    auto file = disk_.create(dir + "/" + shards[0].file, OpenMode::Truncate);
    SafetensorsWriter writer(*file, entries, {{"format", "pt"}});
    for (const StoredEntry& entry : writer.order()) {
      std::vector<float> values(static_cast<size_t>(elements_of(entry.shape)));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = fill(entry.name, static_cast<int64_t>(i));
      writer.write(entry.name, std::as_bytes(std::span(values)));
    }
    writer.finish();
  }
  std::vector<StoredEntry> entries_of(const ModelConfig& model, std::string_view prefix) {
    std::vector<StoredEntry> out;
    for (const HfTensor& tensor : hf_tensors(make_blueprint(model), prefix))
      out.push_back({tensor.name, StoredType::F32, tensor.shape});
    return out;
  }

  // All values of one of our tensors.
  std::vector<float> ours(const std::string& checkpoint, const std::string& name) {
    const std::string path = resolve_checkpoint(disk_, checkpoint);
    const Manifest manifest = read_manifest(disk_, path);
    CheckpointReader reader(disk_, path, manifest);
    const TensorEntry& entry = reader.at(name);
    std::vector<float> values(static_cast<size_t>(elements_of(entry.shape)));
    reader.read_rows(std::as_writable_bytes(std::span(values)), entry, 0, row_count(entry.shape));
    return values;
  }

  // A checkpoint of ours with optimizer state beside random weights.
  std::string write_ours(const std::string& dir, const ModelConfig& model) {
    Config config =
        parse_config("[model]\npreset = \"tiny\"\n[data]\nkind = \"synthetic\"", "", {}).config;
    config.model = model;
    CheckpointState state;
    state.step = 5;
    state.config = to_toml(config);
    std::vector<TensorSource> sources;
    const Blueprint blueprint = make_blueprint(model);
    for (const LayerSpec& layer : blueprint.layers)
      for (const ParamSpec& param : layer.params)
        for (const std::string prefix : {"", "optim.m."}) {
          std::vector<int64_t> shape = param.shape;
          shape[0] = param.valid_rows;
          sources.push_back({prefix + param.name, shape, DType::F32,
                             [shape, name = prefix + param.name](const ByteSink& sink) {
                               std::vector<float> values(static_cast<size_t>(elements_of(shape)));
                               const Random random(1, name);
                               for (size_t i = 0; i < values.size(); ++i)
                                 values[i] = static_cast<float>(random.normal(i));
                               sink(std::as_bytes(std::span(values)));
                             }});
        }
    return write_checkpoint(disk_, dir, state, sources).path;
  }

  UnsyncedDisk disk_;
  TempDir dir_;
  Log log_{LogLevel::Quiet, Color::Never};
};

}  // namespace sextant
