#include "formats/hf_directory.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "formats/json.h"

namespace sextant {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kConfig = "config.json";
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// Tensor name to file name. A file name that leads out of the directory is refused.
std::map<std::string, std::string> read_index(Storage& storage, const std::string& path) {
  const json index = parse_json_strict(read_text(storage, path), path);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  SXT_CHECK(map != index.end() && map->is_object() && !map->empty(), Data, path,
            ": weight_map is missing; an object of tensor and file names is needed");
  std::map<std::string, std::string> out;
  for (const auto& [tensor, file] : map->items()) {
    SXT_CHECK(file.is_string(), Data, path, ": the file of tensor ", shown(tensor),
              " is not a string");
    const std::string name = file.get<std::string>();
    SXT_CHECK(name.ends_with(".safetensors") && name.find('/') == std::string::npos, Data, path,
              ": file ", shown(name), " is not the name of a .safetensors file beside the index");
    out.emplace(tensor, name);
  }
  return out;
}

[[noreturn]] void refuse_without_weights(Storage& storage, const std::string& directory) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    SXT_CHECK(!storage.exists(join_path(directory, name)), Data, directory, " has its weights in ",
              name, " only; save the model with safetensors first");
  }
  SXT_FAIL(Data, directory, " has no weights: neither ", kSingle, " nor ", kIndex, " is there");
}

std::string shard_name(size_t i, size_t count) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, count);
  return name;
}

std::string index_text(const std::vector<HfShard>& shards) {
  int64_t total = 0;
  std::map<std::string, std::string> map;
  for (const HfShard& shard : shards) {
    for (const StoredEntry& entry : shard.entries) {
      map[entry.name] = shard.file;
      total += byte_size(entry);
    }
  }
  ordered_json out;
  out["metadata"]["total_size"] = total;
  out["weight_map"] = map;
  return out.dump(2) + "\n";
}

}  // namespace

HfConfig read_hf_config(Storage& storage, const std::string& directory) {
  SXT_CHECK(storage.exists(directory), Data, directory, ": no such directory; one with ", kConfig,
            " and safetensors is needed, nothing is downloaded");
  SXT_CHECK(storage.is_directory(directory), Data, directory,
            " is not a directory; a model directory with ", kConfig, " is needed");
  const std::string path = join_path(directory, kConfig);
  SXT_CHECK(storage.exists(path), Data, directory, " has no ", kConfig,
            "; a Hugging Face model directory has one");
  return parse_hf_config(read_text(storage, path), path);
}

HfWeights::HfWeights(Storage& storage, const std::string& directory) : directory_(directory) {
  const std::string index_path = join_path(directory, kIndex);
  if (storage.exists(join_path(directory, kSingle))) {
    shards_.reserve(1);
    add(storage, join_path(directory, kSingle));
    return;
  }
  if (!storage.exists(index_path)) refuse_without_weights(storage, directory);
  const std::map<std::string, std::string> listed = read_index(storage, index_path);
  std::set<std::string> files;
  for (const auto& [tensor, file] : listed) files.insert(file);
  shards_.reserve(files.size());  // index_ points into it
  for (const std::string& file : files) add(storage, join_path(directory, file));
  for (size_t i = 0; i < shards_.size(); ++i) {
    for (const StoredTensor& tensor : shards_[i].tensors()) {
      const auto row = listed.find(tensor.name);
      SXT_CHECK(row != listed.end() && join_path(directory, row->second) == paths_[i], Data,
                paths_[i], ": tensor ", shown(tensor.name), " is not listed there by ", kIndex);
    }
  }
  for (const auto& [tensor, file] : listed)
    SXT_CHECK(find(tensor) != nullptr, Data, index_path, ": tensor ", shown(tensor), " is not in ",
              file);
}

void HfWeights::add(Storage& storage, const std::string& path) {
  paths_.push_back(path);
  shards_.emplace_back(storage, path);
  for (const StoredTensor& tensor : shards_.back().tensors())
    SXT_CHECK(index_.emplace(tensor.name, &tensor).second, Data, path, ": tensor ",
              shown(tensor.name), " is in another file too");
}

std::vector<std::string> HfWeights::names() const {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : index_) out.emplace_back(name);
  return out;
}

const StoredTensor* HfWeights::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : found->second;
}

const StoredTensor& HfWeights::at(std::string_view name) const {
  const StoredTensor* tensor = find(name);
  SXT_CHECK(tensor != nullptr, Data, directory_, ": no tensor ", shown(name), " among its ",
            index_.size());
  return *tensor;
}

std::vector<HfShard> plan_hf_shards(const std::vector<StoredEntry>& entries, int64_t limit) {
  std::vector<HfShard> shards(1);
  int64_t filled = 0;
  for (const StoredEntry& entry : entries) {
    const int64_t size = byte_size(entry);
    if (filled > 0 && size > limit - filled) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().entries.push_back(entry);
    filled += size;
  }
  for (size_t i = 0; i < shards.size(); ++i)
    shards[i].file = shards.size() == 1 ? kSingle : shard_name(i, shards.size());
  return shards;
}

std::map<std::string, std::string> hf_weight_metadata() {
  return {{"format", "pt"}};
}

void write_hf_directory(Storage& storage, const std::string& directory, const HfConfig& config,
                        const std::vector<HfShard>& shards) {
  storage.make_directories(directory);
  replace_file(storage, join_path(directory, kConfig), hf_config_text(config));
  replace_file(storage, join_path(directory, kGenerationConfig),
               hf_generation_config_text(config.tokens));
  if (shards.size() > 1) replace_file(storage, join_path(directory, kIndex), index_text(shards));
}

}  // namespace sextant
