#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/log.h"
#include "base/storage.h"
#include "checkpoint/save.h"
#include "config/config.h"
#include "formats/hf_config.h"
#include "formats/tokenizer_files.h"

namespace sextant {

// Between checkpoints and Hugging Face directories, for every family.

// Converts config.json to ModelConfig and back. config.json has no init_std; its dropout is
// ignored, as it belongs to training and not to the weights. The preset glm-5 stands for model_type
// glm_moe_dsa; there is no other preset of a config.json.
ModelConfig model_config_from_hf(const HfConfig& hf);
HfConfig hf_config_from_model(const ModelConfig& model, DType dtype);

// A Hugging Face directory as a checkpoint would have it: weights in f32 by our names.
struct HfModel {
  ModelConfig model;
  std::string config;  // TOML
  std::vector<TensorSource> tensors;
  TokenizerFiles tokenizer;  // empty: none
};

// Reads config.json, checks the weights and calls `use` while they are mapped. Errors as import_hf.
void read_hf_model(Storage& storage, const std::string& directory, Log& log,
                   const std::function<void(const HfModel&)>& use);
bool is_hf_directory(Storage& storage, const std::string& path);
// The configuration that read_hf_model gives, from config.json alone.
std::string read_hf_settings(Storage& storage, const std::string& directory);

// Where weights are: `path` itself if it is a Hugging Face directory, else resolve_checkpoint.
std::string resolve_weights(Storage& storage, const std::string& path);

struct ImportReport {
  std::string path;  // of the new checkpoint
  ModelConfig model;
  int64_t tensors = 0;  // of the checkpoint
  int64_t bytes = 0;    // of the checkpoint's files
};

// Reads config.json and the weights (F32, F16 or BF16) of `directory` and writes a checkpoint of
// step 0, weights in f32, into the checkpoint directory `out`, tensor by tensor. Throws Error(Data)
// for a tensor that is missing, unknown or of another shape or type, and for a tied model whose
// head differs from its embedding; Error(Usage) when `out` holds checkpoints of a run.
ImportReport import_hf(Storage& storage, const std::string& directory, const std::string& out,
                       Log& log);

struct ExportOptions {
  DType dtype = DType::F32;    // or BF16, F16
  TokenizerFiles tokenizer{};  // written along; empty: that of the checkpoint, if any
  int64_t shard_bytes = 5'000'000'000;
};

struct ExportReport {
  std::vector<std::string> files;  // weight files, by name
  int64_t tensors = 0;             // Hugging Face tensors
  int64_t bytes = 0;               // of the weight files
  std::string left_out;            // what a model of its model_type also has; "": nothing
};

// Writes the weights of a checkpoint (its directory or that of its run) to `out` in the layout of
// transformers. Throws Error(Data) for a value that overflows `dtype`, Error(Usage) when `out` has
// other weight files, which would stay beside the new ones.
ExportReport export_hf(Storage& storage, const std::string& checkpoint, const std::string& out,
                       const ExportOptions& options);

}  // namespace sextant
