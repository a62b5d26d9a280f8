#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/box.h"
#include "formats/safetensors.h"

namespace sextant {

// Version 2 has the files of a tokenizer; without them version 1 is written.
inline constexpr int64_t kManifestVersion = 1, kManifestWithTokenizer = 2;
inline constexpr std::string_view kManifestName = "manifest.json";

// Position of the data loader: sample `index` of `epoch` is next.
struct DataCursor {
  int64_t epoch = 0;
  int64_t index = 0;
  bool operator==(const DataCursor&) const = default;
};

// What a run needs to resume besides its tensors.
struct CheckpointState {
  int64_t step = 0;  // optimizer steps done
  DataCursor cursor;
  uint64_t seed = 0;              // the key of every random draw
  std::string config;             // TOML
  std::string layout = "1 rank";  // of the run that wrote it, informative: "dp2 x shard4"
  bool operator==(const CheckpointState&) const = default;
};

struct ShardFile {
  std::string name;  // inside the checkpoint's directory
  int64_t bytes = 0;
  std::string xxh3_128;  // 32 hexadecimal digits, of the whole file
  bool operator==(const ShardFile&) const = default;
};

// A part of a global tensor: tensor `tensor` of shape box.size in file `file`.
struct TensorSlice {
  Box box;
  std::string file;
  std::string tensor;
  bool operator==(const TensorSlice&) const = default;
};

// A global tensor, without padding. Its slices cover it and do not overlap.
struct TensorEntry {
  std::string name;
  std::vector<int64_t> shape;
  DType dtype = DType::F32;
  std::vector<TensorSlice> slices;
  int64_t bytes() const { return elements_of(shape) * size_of(dtype); }
  bool operator==(const TensorEntry&) const = default;
};

// The contents of a checkpoint. docs/checkpoint.md describes the file.
struct Manifest {
  CheckpointState state;
  std::vector<ShardFile> files;
  std::vector<TensorEntry> tensors;
  std::vector<ShardFile> tokenizer = {};  // its files, tokenizer.json first; empty: none

  const TensorEntry* find(std::string_view name) const;  // null when absent
  int64_t file_bytes() const;
  bool operator==(const Manifest&) const = default;
};

// State of loss scaling, in checkpoints of fp16 runs only: other runs ignore it, and an fp16 run
// may go on without it.
inline constexpr std::string_view kLossScaleTensor = "optim.loss_scale";

// Whether a tensor is optimizer state, which LoadWhat::Weights ignores.
bool is_optimizer_tensor(std::string_view name);

StoredType stored_type(DType dtype);
std::optional<DType> dtype_of(StoredType type);

// The text of manifest.json. Ends with a digest of itself, which detects any change.
std::string to_json(const Manifest& manifest);

// Parses the output of to_json, strictly: unknown keys, another version, slices with gaps or
// overlaps, names that lead out of the directory and a wrong digest are Error(Data), one line that
// begins with `what`.
Manifest parse_manifest(std::string_view text, const std::string& what);

}  // namespace sextant
