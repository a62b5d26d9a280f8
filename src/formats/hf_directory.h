#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/storage.h"
#include "formats/hf_config.h"
#include "formats/safetensors.h"

namespace sextant {

// config.json of a model directory. Every refusal here is Error(Data) with the path in it.
HfConfig read_hf_config(Storage& storage, const std::string& directory);

// The weights of a model directory, mapped: model.safetensors, or the shards that
// model.safetensors.index.json names, whose tensors must be exactly those of the index.
class HfWeights {
 public:
  HfWeights(Storage& storage, const std::string& directory);

  const std::vector<std::string>& files() const { return paths_; }
  std::vector<std::string> names() const;                 // of all tensors, sorted
  const StoredTensor* find(std::string_view name) const;  // null when absent
  const StoredTensor& at(std::string_view name) const;    // Error(Data) when absent

 private:
  void add(Storage& storage, const std::string& path);

  std::string directory_;
  std::vector<std::string> paths_;
  std::vector<SafetensorsFile> shards_;
  std::map<std::string_view, const StoredTensor*> index_;  // into shards_
};

// One weight file to be written and what goes in it.
struct HfShard {
  std::string file;  // model.safetensors or model-00001-of-00003.safetensors
  std::vector<StoredEntry> entries;
};

inline constexpr int64_t kHfShardBytes = 5'000'000'000;

// Fills files in the order of `entries`, none above `limit` bytes of data unless one tensor is.
std::vector<HfShard> plan_hf_shards(const std::vector<StoredEntry>& entries,
                                    int64_t limit = kHfShardBytes);

// The metadata that transformers looks for in each weight file.
std::map<std::string, std::string> hf_weight_metadata();

// config.json and generation_config.json, and the index when there are several shards. The weight
// files are the caller's to write.
void write_hf_directory(Storage& storage, const std::string& directory, const HfConfig& config,
                        const std::vector<HfShard>& shards);

}  // namespace sextant
