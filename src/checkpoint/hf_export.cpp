#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "checkpoint/hf.h"
#include "checkpoint/hf_names.h"
#include "checkpoint/load.h"
#include "checkpoint/reader.h"
#include "checkpoint/save.h"
#include "config/load.h"
#include "formats/hf_directory.h"
#include "tensor/convert.h"

namespace sextant {
namespace {

// Converts f32 values to the export type; a value that overflows is an error.
class Narrower {
 public:
  Narrower(std::string name, DType dtype, const ByteSink& sink)
      : name_(std::move(name)), dtype_(dtype), sink_(sink) {}

  void put(std::span<const float> values) {
    if (dtype_ == DType::F32) return sink_(std::as_bytes(values));
    const float limit = dtype_ == DType::F16 ? 65520.0f : 0x1.ffp127f;  // rounds to infinity
    for (const float value : values)
      SXT_CHECK(!(std::abs(value) >= limit && std::isfinite(value)), Data, "tensor ", name_,
                " has the value ", value, ", beyond ", name_of(dtype_), "; export as f32",
                dtype_ == DType::F16 ? " or bf16" : "");
    bytes_.resize(values.size() * static_cast<size_t>(size_of(dtype_)));
    convert(dtype_, bytes_.data(), DType::F32, reinterpret_cast<const std::byte*>(values.data()),
            static_cast<int64_t>(values.size()));
    sink_(bytes_);
  }

 private:
  std::string name_;
  DType dtype_;
  const ByteSink& sink_;
  std::vector<std::byte> bytes_;
};

class Exporter {
 public:
  Exporter(CheckpointReader& reader, DType dtype) : reader_(reader), dtype_(dtype) {}

  void produce(const HfTensor& tensor, const ByteSink& sink) {
    Narrower narrower(tensor.name, dtype_, sink);
    if (tensor.is_transposed) return produce_transposed(tensor, narrower);
    for (const HfPiece& piece : tensor.pieces) {
      const TensorEntry& entry = reader_.at(piece.param);
      const int64_t width = row_elements(entry.shape);
      const int64_t block = std::max<int64_t>(1, kPassBytes / 4 / width);
      for (int64_t done = 0; done < piece.rows; done += block) {
        const int64_t rows = std::min(block, piece.rows - done);
        values_.resize(static_cast<size_t>(rows * width));
        read(entry, piece.our_row + done, rows, values_);
        narrower.put(values_);
      }
    }
  }

 private:
  void read(const TensorEntry& entry, int64_t begin, int64_t rows, std::span<float> to) {
    if (entry.dtype == DType::F32)
      return reader_.read_rows(std::as_writable_bytes(to), entry, begin, begin + rows);
    narrow_.resize(to.size() * static_cast<size_t>(size_of(entry.dtype)));
    reader_.read_rows(narrow_, entry, begin, begin + rows);
    convert(DType::F32, std::as_writable_bytes(to).data(), entry.dtype, narrow_.data(),
            static_cast<int64_t>(to.size()));
  }

  // Their matrix is [in, out]: each of its rows needs all rows of ours, so the whole matrix is in
  // memory.
  void produce_transposed(const HfTensor& tensor, Narrower& narrower) {
    const int64_t in = tensor.shape[0], out = tensor.shape[1];
    values_.resize(static_cast<size_t>(in * out));
    for (const HfPiece& piece : tensor.pieces)
      read(reader_.at(piece.param), piece.our_row, piece.rows,
           std::span(values_).subspan(static_cast<size_t>(piece.their_row * in),
                                      static_cast<size_t>(piece.rows * in)));
    std::vector<float> row(static_cast<size_t>(out));
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t o = 0; o < out; ++o)
        row[static_cast<size_t>(o)] = values_[static_cast<size_t>(o * in + i)];
      narrower.put(row);
    }
  }

  CheckpointReader& reader_;
  DType dtype_;
  std::vector<float> values_;
  std::vector<std::byte> narrow_;  // rows of a checkpoint without master weights
};

void check_weights(CheckpointReader& reader, const Blueprint& blueprint) {
  std::set<std::string_view> known;
  for (const LayerSpec& layer : blueprint.layers)
    for (const ParamSpec& param : layer.params) {
      const TensorEntry& entry = reader.at(param.name);
      std::vector<int64_t> shape = param.shape;
      shape[0] = param.valid_rows;
      SXT_CHECK(entry.shape == shape && is_floating(entry.dtype), Data, "tensor ", entry.name,
                " of the checkpoint is ", name_of(entry.dtype), " ", shape_text(entry.shape),
                ", its configuration makes it f32 ", shape_text(shape));
      reader.check(entry);
      known.insert(param.name);
    }
  for (const TensorEntry& entry : reader.manifest().tensors)
    SXT_CHECK(is_optimizer_tensor(entry.name) || known.contains(entry.name), Data, "tensor ",
              entry.name, " of the checkpoint has no place in the model of its configuration");
}

// Weight files of an earlier export would be read instead of the new ones or in addition to them.
void check_stale(Storage& storage, const std::string& out, const std::vector<HfShard>& shards) {
  if (!storage.exists(out)) return;
  std::set<std::string> ours;
  for (const HfShard& shard : shards) ours.insert(shard.file);
  if (shards.size() > 1) ours.insert("model.safetensors.index.json");
  for (const std::string& name : storage.list(out)) {
    const bool is_weights =
        name.starts_with("model") &&
        (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"));
    SXT_CHECK(!is_weights || ours.contains(name), Usage, out, ": ", name,
              " is there from another export; remove it or choose another directory");
  }
}

int64_t write_shard(Storage& storage, const std::string& path, const HfShard& shard,
                    const std::map<std::string, const HfTensor*>& tensors, Exporter& exporter) {
  const std::string temporary = path + ".tmp";
  int64_t bytes = 0;
  {
    const std::unique_ptr<FileWriter> file = storage.create(temporary);
    SafetensorsWriter writer(*file, shard.entries, hf_weight_metadata());
    for (const StoredEntry& entry : writer.order())
      exporter.produce(*tensors.at(entry.name),
                       [&](std::span<const std::byte> piece) { writer.write(entry.name, piece); });
    writer.finish();
    file->sync();
    bytes = file->offset();
  }
  storage.rename(temporary, path);
  return bytes;
}

}  // namespace

ExportReport export_hf(Storage& storage, const std::string& checkpoint, const std::string& out,
                       const ExportOptions& options) {
  const std::string path = resolve_checkpoint(storage, checkpoint);
  const Manifest manifest = read_manifest(storage, path);
  const std::string origin = join_path(path, kManifestName) + ": config";
  const ModelConfig model = parse_config(manifest.state.config, origin, {}).config.model;
  HfConfig config = hf_config_from_model(model, options.dtype);
  const Blueprint blueprint = make_blueprint(model);
  CheckpointReader reader(storage, path, manifest);
  check_weights(reader, blueprint);

  const std::vector<HfTensor> tensors = hf_tensors(blueprint, hf_prefix(model.family));
  std::vector<StoredEntry> entries;
  std::map<std::string, const HfTensor*> by_name;
  for (const HfTensor& tensor : tensors) {
    entries.push_back({tensor.name, stored_type(options.dtype), tensor.shape});
    by_name.emplace(tensor.name, &tensor);
  }
  const std::vector<HfShard> shards = plan_hf_shards(entries, options.shard_bytes);
  const TokenizerFiles tokenizer =
      options.tokenizer.empty() ? read_tokenizer(storage, path, manifest) : options.tokenizer;
  config.tokens = hf_tokens_of(tokenizer, out);
  check_stale(storage, out, shards);
  storage.make_directories(out);
  ExportReport report;
  report.tensors = static_cast<int64_t>(tensors.size());
  if (config.family == HfFamily::GlmMoeDsa)
    report.left_out =
        concat("left out: self_attn.indexer, the indexer of sparse attention; with index_topk = ",
               config.positions, " it chooses all keys, whatever its weights");
  Exporter exporter(reader, options.dtype);
  for (const HfShard& shard : shards) {
    report.bytes += write_shard(storage, join_path(out, shard.file), shard, by_name, exporter);
    report.files.push_back(shard.file);
  }
  write_hf_directory(storage, out, config, shards);
  write_tokenizer_files(storage, out, tokenizer);
  return report;
}

}  // namespace sextant
