#include "checkpoint/save.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "checkpoint/digest.h"
#include "checkpoint/directory.h"
#include "checkpoint/load.h"

namespace sextant {
namespace {

int64_t bytes_of(const TensorSource& source) {
  return elements_of(source.shape) * size_of(source.dtype);
}

struct Shard {
  std::string name;
  std::vector<const TensorSource*> tensors;
};

// Keeps the given order, with weights and optimizer state in separate files, so that loading
// weights does not read optimizer state.
std::vector<Shard> plan_shards(const std::vector<TensorSource>& tensors, int64_t shard_bytes) {
  std::vector<Shard> shards;
  for (const bool is_optim : {false, true}) {
    int64_t filled = 0;
    int count = 0;
    for (const TensorSource& source : tensors) {
      if (is_optimizer_tensor(source.name) != is_optim) continue;
      if (count == 0 || filled + bytes_of(source) > shard_bytes) {
        std::string number = std::to_string(count++);
        number.insert(0, number.size() < 5 ? 5 - number.size() : 0, '0');
        shards.push_back({concat(is_optim ? "optim-" : "weights-", number, ".safetensors"), {}});
        filled = 0;
      }
      shards.back().tensors.push_back(&source);
      filled += bytes_of(source);
    }
  }
  return shards;
}

ShardFile write_shard(Storage& storage, const std::string& checkpoint, const Shard& shard) {
  std::vector<StoredEntry> entries;
  std::map<std::string_view, const TensorSource*> by_name;
  for (const TensorSource* source : shard.tensors) {
    entries.push_back({source->name, stored_type(source->dtype), source->shape});
    by_name.emplace(source->name, source);
  }
  const std::unique_ptr<FileWriter> file = storage.create(join_path(checkpoint, shard.name));
  DigestingWriter digesting(*file);
  SafetensorsWriter writer(digesting, std::move(entries));
  for (const StoredEntry& entry : writer.order())
    by_name.at(entry.name)->produce([&](std::span<const std::byte> bytes) {
      writer.write(entry.name, bytes);
    });
  writer.finish();
  file->sync();
  return {shard.name, file->offset(), digesting.hex()};
}

ShardFile write_file(Storage& storage, const std::string& checkpoint,
                     const TokenizerFiles::File& from) {
  const std::unique_ptr<FileWriter> file = storage.create(join_path(checkpoint, from.name));
  write_text(*file, from.content);
  file->sync();
  return {from.name, file->offset(), digest_of(from.content)};
}

Manifest write_files(Storage& storage, const std::string& checkpoint, const CheckpointState& state,
                     const std::vector<TensorSource>& tensors, const SaveOptions& options) {
  Manifest manifest{state, {}, {}, {}};
  for (const TokenizerFiles::File& file : options.tokenizer.files)
    manifest.tokenizer.push_back(write_file(storage, checkpoint, file));
  for (const Shard& shard : plan_shards(tensors, options.shard_bytes)) {
    manifest.files.push_back(write_shard(storage, checkpoint, shard));
    for (const TensorSource* source : shard.tensors)
      manifest.tensors.push_back({source->name,
                                  source->shape,
                                  source->dtype,
                                  {{whole_box(source->shape), shard.name, source->name}}});
  }
  const std::unique_ptr<FileWriter> file = storage.create(join_path(checkpoint, kManifestName));
  write_text(*file, to_json(manifest));
  file->sync();
  storage.sync_directory(checkpoint);
  return manifest;
}

// Removes the temporary directory of a failed save, to free space on a full disk. If that fails
// too, the next save does it.
class Unfinished {
 public:
  Unfinished(Storage& storage, std::string path) : storage_(storage), path_(std::move(path)) {}
  ~Unfinished() {
    if (path_.empty()) return;
    try {
      storage_.remove_all(path_);
    } catch (const Error&) {
    }
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  void done() { path_.clear(); }

 private:
  Storage& storage_;
  std::string path_;
};

void open_directory(Storage& storage, const std::string& directory) {
  if (!storage.exists(directory)) {
    storage.make_directories(directory);
    storage.sync_directory(parent_path(directory));
  }
  remove_leftovers(storage, directory);
}

}  // namespace

SaveReport write_checkpoint(Storage& storage, const std::string& directory,
                            const CheckpointState& state, const std::vector<TensorSource>& tensors,
                            const SaveOptions& options) {
  SXT_CHECK(options.keep >= 1, Usage, "checkpoint: keep ", options.keep, ", at least 1 is right");
  SXT_CHECK(state.step >= 0, Usage, "checkpoint: step ", state.step);
  open_directory(storage, directory);
  CheckpointName free{state.step, false};
  if (latest_name(storage, directory) == to_string(free)) free.is_second = true;
  const std::string name = to_string(free);
  const std::string path = join_path(directory, name);
  const std::string temporary = path + ".tmp";

  Unfinished unfinished(storage, temporary);
  storage.make_directories(temporary);
  const Manifest manifest = write_files(storage, temporary, state, tensors, options);
  verify_checkpoint(storage, temporary);
  if (storage.exists(path)) discard_checkpoint(storage, directory, name);
  storage.rename(temporary, path);
  unfinished.done();
  storage.sync_directory(directory);
  if (options.check_owner) options.check_owner();
  replace_file(storage, join_path(directory, kLatestName), name + "\n");

  PruneReport pruned = prune_checkpoints(storage, directory, options.keep);
  return {path,
          static_cast<int64_t>(manifest.tensors.size()),
          static_cast<int64_t>(manifest.files.size()),
          manifest.file_bytes(),
          std::move(pruned.removed),
          std::move(pruned.broken)};
}

}  // namespace sextant
