#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "base/parse.h"
#include "blueprint/blueprint.h"
#include "checkpoint/hf.h"
#include "checkpoint/hf_names.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "config/keys.h"
#include "config/load.h"
#include "formats/hf_directory.h"
#include "formats/json.h"
#include "tensor/convert.h"

namespace sextant {
namespace {

constexpr std::string_view kHeadWeight = "lm_head.weight";
constexpr int64_t kTile = 64;  // rows of a transposed matrix per pass

// A Hugging Face tensor in its file.
struct Source {
  const StoredTensor* stored;
  bool is_transposed;
  DType dtype;
};

// Rows of our parameter and their source.
struct SourceRows {
  Source source;
  int64_t our_row, their_row, rows;
};

DType checked_dtype(const StoredTensor& tensor, const std::string& directory) {
  const std::optional<DType> dtype = dtype_of(tensor.type);
  SXT_CHECK(dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16, Data, directory,
            ": tensor ", tensor.name, " is ", to_string(tensor.type),
            "; F32, F16 and BF16 can be imported");
  return *dtype;
}

// Converts `count` elements from `from`, which may be unaligned, to f32.
void widen_to(std::vector<float>& to, std::vector<std::byte>& aligned, DType dtype,
              const std::byte* from, int64_t count) {
  to.resize(static_cast<size_t>(count));
  aligned.assign(from, from + count * size_of(dtype));
  convert(DType::F32, reinterpret_cast<std::byte*>(to.data()), dtype, aligned.data(), count);
}

void produce_plain(const SourceRows& part, const ByteSink& sink) {
  const StoredTensor& stored = *part.source.stored;
  const int64_t columns = stored.shape.size() > 1 ? stored.shape[1] : 1;
  const int64_t bytes = size_of(part.source.dtype);
  const int64_t total = part.rows * columns;
  const std::byte* data = stored.data.data() + part.their_row * columns * bytes;
  std::vector<float> values;
  std::vector<std::byte> aligned;
  for (int64_t done = 0; done < total; done += kPassBytes / 4) {
    widen_to(values, aligned, part.source.dtype, data + done * bytes,
             std::min(kPassBytes / 4, total - done));
    sink(std::as_bytes(std::span(values)));
  }
}

// Their matrix is [in, out]; our rows are its columns.
void produce_transposed(const SourceRows& part, const ByteSink& sink) {
  const StoredTensor& stored = *part.source.stored;
  const int64_t in = stored.shape[0], out = stored.shape[1];
  const int64_t bytes = size_of(part.source.dtype);
  std::vector<std::byte> columns, aligned;
  std::vector<float> values, rows;
  for (int64_t begin = 0; begin < part.rows; begin += kTile) {
    const int64_t count = std::min(kTile, part.rows - begin);
    columns.resize(static_cast<size_t>(in * count * bytes));
    for (int64_t i = 0; i < in; ++i)
      std::memcpy(columns.data() + i * count * bytes,
                  stored.data.data() + (i * out + part.their_row + begin) * bytes,
                  static_cast<size_t>(count * bytes));
    widen_to(values, aligned, part.source.dtype, columns.data(), in * count);
    rows.resize(values.size());
    for (int64_t row = 0; row < count; ++row)
      for (int64_t i = 0; i < in; ++i)
        rows[static_cast<size_t>(row * in + i)] = values[static_cast<size_t>(i * count + row)];
    sink(std::as_bytes(std::span(rows)));
  }
}

using PartsOfParam = std::map<std::string, std::vector<SourceRows>>;

// Checks every tensor that the model needs and assigns it to our parameters.
PartsOfParam collect(const HfWeights& weights, const std::vector<HfTensor>& expected,
                     const std::string& directory) {
  PartsOfParam parts;
  for (const HfTensor& tensor : expected) {
    const StoredTensor* stored = weights.find(tensor.name);
    SXT_CHECK(stored != nullptr, Data, directory, ": tensor ", tensor.name, " ",
              shape_text(tensor.shape), " is missing");
    SXT_CHECK(stored->shape == tensor.shape, Data, directory, ": tensor ", tensor.name, " is ",
              shape_text(stored->shape), ", its config.json makes it ", shape_text(tensor.shape));
    const Source source{stored, tensor.is_transposed, checked_dtype(*stored, directory)};
    for (const HfPiece& piece : tensor.pieces)
      parts[piece.param].push_back({source, piece.our_row, piece.their_row, piece.rows});
  }
  for (auto& [name, rows] : parts)
    std::sort(rows.begin(), rows.end(),
              [](const SourceRows& a, const SourceRows& b) { return a.our_row < b.our_row; });
  return parts;
}

// A tied model has no head of its own; some files write the embedding a second time.
void check_tied_head(const HfWeights& weights, const ModelConfig& model,
                     const std::string& embedding, const std::string& directory) {
  const StoredTensor* head = weights.find(kHeadWeight);
  if (!model.tied || head == nullptr) return;
  const StoredTensor& table = weights.at(embedding);
  SXT_CHECK(head->type == table.type && head->shape == table.shape &&
                std::memcmp(head->data.data(), table.data.data(), table.data.size()) == 0,
            Data, directory, ": ", kHeadWeight, " differs from ", embedding,
            ", but config.json ties them: set tie_word_embeddings to false to keep both");
}

void check_unknown(const HfWeights& weights, const std::vector<HfTensor>& expected,
                   const ModelConfig& model, std::string_view prefix, const std::string& directory,
                   Log& log) {
  std::map<std::string_view, std::vector<std::string>> left_out;
  std::set<std::string_view> known;
  for (const HfTensor& tensor : expected) known.insert(tensor.name);
  for (const std::string& name : weights.names()) {
    if (known.contains(name) || (model.tied && name == kHeadWeight)) continue;
    if (model.family == Family::DeepseekMoe) {
      const std::string_view what = hf_left_out(name, prefix, model.layers);
      if (!what.empty()) {
        left_out[what].push_back(name);
        continue;
      }
    }
    SXT_CHECK(is_hf_buffer(name), Data, directory, ": tensor ", shown(name),
              " has no place in a model of this config.json");
    log.detail(concat("left out: ", name, ", a constant"));
  }
  for (const auto& [what, names] : left_out)
    log.warning(concat("left out: ", names.size(), " tensors such as ", names.front(), ", ", what));
}

// The config of an imported model, with synthetic tokens as data.
std::string config_text(const ModelConfig& model, const std::string& directory) {
  Config config;
  config.model = model;
  std::string text = "[model]\n";
  for (const Key& key : config_keys()) {
    constexpr std::string_view kSection = "model.";
    const Value value = key.get(config);
    if (!key.name.starts_with(kSection) || !key.applies(config) || value == Value(std::string()))
      continue;
    text += concat(key.name.substr(kSection.size()), " = ", to_text(value), "\n");
  }
  text += "[data]\nkind = \"synthetic\"\n";
  try {
    return to_toml(parse_config(text, directory + "/config.json", {}).config);
  } catch (const Error& error) {  // the values come from the directory, not from the user
    throw Error(Fault::Data, error.what());
  }
}

void check_free(Storage& storage, const std::string& out) {
  if (!storage.exists(out)) return;
  SXT_CHECK(storage.is_directory(out), Usage, out, ": a file; a directory is needed");
  for (const std::string& name : storage.list(out)) {
    const std::optional<CheckpointName> parsed = parse_checkpoint_name(name);
    SXT_CHECK(!parsed || parsed->step == 0, Usage, out, ": holds ", name,
              ", the checkpoint of a run; import into another directory");
  }
}

}  // namespace

bool is_hf_directory(Storage& storage, const std::string& path) {
  return storage.exists(join_path(path, "config.json")) &&
         !storage.exists(join_path(path, kManifestName));
}

std::string read_hf_settings(Storage& storage, const std::string& directory) {
  return config_text(model_config_from_hf(read_hf_config(storage, directory)), directory);
}

std::string resolve_weights(Storage& storage, const std::string& path) {
  return is_hf_directory(storage, path) ? path : resolve_checkpoint(storage, path);
}

void read_hf_model(Storage& storage, const std::string& directory, Log& log,
                   const std::function<void(const HfModel&)>& use) {
  HfModel out;
  const HfConfig hf = read_hf_config(storage, directory);
  out.model = model_config_from_hf(hf);
  out.config = config_text(out.model, directory);
  const HfWeights weights(storage, directory);
  const Blueprint blueprint = make_blueprint(out.model);
  const bool is_bare = weights.find(hf_marker(out.model.family)) != nullptr;
  const std::string prefix(is_bare ? "" : hf_prefix(out.model.family));
  const std::vector<HfTensor> expected = hf_tensors(blueprint, prefix);
  const PartsOfParam parts = collect(weights, expected, directory);
  check_unknown(weights, expected, out.model, prefix, directory, log);
  check_tied_head(weights, out.model, concat(prefix, hf_marker(out.model.family)), directory);
  for (const LayerSpec& layer : blueprint.layers)
    for (const ParamSpec& param : layer.params) {
      std::vector<int64_t> shape = param.shape;
      shape[0] = param.valid_rows;
      out.tensors.push_back(
          {param.name, shape, DType::F32, [&rows = parts.at(param.name)](const ByteSink& sink) {
             for (const SourceRows& part : rows)
               part.source.is_transposed ? produce_transposed(part, sink)
                                         : produce_plain(part, sink);
           }});
    }
  if (storage.exists(join_path(directory, kTokenizerJson))) {
    out.tokenizer = read_tokenizer_files(storage, directory);
    add_hf_tokens(out.tokenizer, hf.tokens, directory);
  }
  use(out);
}

ImportReport import_hf(Storage& storage, const std::string& directory, const std::string& out,
                       Log& log) {
  ImportReport report;
  check_free(storage, out);
  read_hf_model(storage, directory, log, [&](const HfModel& model) {
    CheckpointState state;
    state.config = model.config;
    SaveOptions options;
    options.tokenizer = model.tokenizer;
    const SaveReport saved = write_checkpoint(storage, out, state, model.tensors, options);
    log.info(concat("imported ", saved.tensors, " tensors, ", format_bytes(saved.bytes), ", to ",
                    saved.path));
    report = {saved.path, model.model, saved.tensors, saved.bytes};
  });
  return report;
}

}  // namespace sextant
