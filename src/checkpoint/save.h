#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/storage.h"
#include "checkpoint/manifest.h"
#include "comm/communicator.h"
#include "parallel/param.h"

namespace sextant {

struct SaveOptions {
  int64_t keep = 2;                        // whole checkpoints in the directory, at least 1
  int64_t shard_bytes = int64_t{2} << 30;  // a file ends before it grows beyond, if it can
  // Called right before `latest` moves: throws when the directory is another run's by now.
  std::function<void()> check_owner = {};
};

struct SaveReport {
  std::string path;  // of the new checkpoint
  int64_t tensors = 0;
  int64_t files = 0;
  int64_t bytes = 0;                 // of the shard files
  std::vector<std::string> removed;  // older checkpoints, by name
  std::vector<std::string> broken;   // older checkpoints that turned out to be damaged
};

// Writes the tensors as a new checkpoint of `directory` (see directory.h) and moves `latest` to it:
// written under a temporary name, synced, read back and checked, renamed; `latest` last, then old
// ones go. Whatever fails (Error(Failure) for what cannot be written), the directory afterwards has
// a valid `latest` that names the old checkpoint or the new one, whole.
SaveReport save_checkpoint(Storage& storage, const std::string& directory,
                           const CheckpointState& state, const std::vector<NamedTensor>& tensors,
                           Stream& stream, const SaveOptions& options = {});

// The same for the ranks of a run, each with the parts of tensors that it holds. All of them call
// it; together they have every stored element once. Of a replicated tensor one rank passes its
// part; the others leave it out or pass an empty one. Rows of padding are not stored, whoever has
// them.
//
// Rank 0 writes: its storage, directory, state and options count. The parts come to it in pieces of
// at most kPassBytes. The files have whole tensors in the order in which the ranks, 0 first, name
// them: when every rank names all in one order, the bytes do not depend on how they were cut.
//
// Returns the report on all ranks. When rank 0 fails all ranks throw its error, the others with
// "rank 0 could not save: " in front, and the communicator can still be used. When another rank
// fails it aborts the communicator.
SaveReport save_checkpoint(Communicator& world, Storage& storage, const std::string& directory,
                           const CheckpointState& state, const std::vector<NamedTensor>& tensors,
                           Stream& stream, const SaveOptions& options = {});

// Takes the next bytes of a tensor.
using ByteSink = std::function<void(std::span<const std::byte>)>;

// A tensor to be written, wherever its bytes come from.
struct TensorSource {
  std::string name;
  std::vector<int64_t> shape;
  DType dtype = DType::F32;
  std::function<void(const ByteSink&)> produce;  // gives all bytes in order, in pieces
};

// The same as save_checkpoint, for tensors that are on no device.
SaveReport write_checkpoint(Storage& storage, const std::string& directory,
                            const CheckpointState& state, const std::vector<TensorSource>& tensors,
                            const SaveOptions& options = {});

}  // namespace sextant
