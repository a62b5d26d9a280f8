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
#include "formats/tokenizer_files.h"
#include "parallel/param.h"

namespace sextant {

struct SaveOptions {
  int64_t keep = 2;                        // valid checkpoints in the directory, at least 1
  int64_t shard_bytes = int64_t{2} << 30;  // maximum file size, unless one tensor is larger
  // Called right before `latest` moves. Throws if another run owns the directory by now.
  std::function<void()> check_owner = {};
  TokenizerFiles tokenizer = {};  // kept in the checkpoint
};

struct SaveReport {
  std::string path;  // of the new checkpoint
  int64_t tensors = 0;
  int64_t files = 0;
  int64_t bytes = 0;                 // of the shard files
  std::vector<std::string> removed;  // older checkpoints, by name
  std::vector<std::string> broken;   // older checkpoints that turned out to be damaged
};

// Writes the tensors as a new checkpoint of `directory` (see directory.h): under a temporary name,
// synced, read back and verified, renamed; then updates `latest`, then removes old checkpoints. A
// failed write is Error(Failure). After any failure `latest` names a valid checkpoint, the old one
// or the new one.
//
// Collective: each rank passes the parts that it holds, together every stored element once. Of a
// replicated tensor one rank passes its part; the others omit it or pass an empty one. Padding rows
// are not stored.
//
// Rank 0 writes; its storage, directory, state and options are used. The parts are sent to it in
// pieces of at most kPassBytes. Tensors are stored whole, in the order of the ranks' lists, rank 0
// first: if all ranks list all tensors in one order, the bytes do not depend on the sharding.
//
// Returns the report on all ranks. If rank 0 fails, all ranks throw its error, the others with
// "rank 0 could not save: " in front, and the communicator stays usable. If another rank fails, it
// aborts the communicator.
SaveReport save_checkpoint(Communicator& world, Storage& storage, const std::string& directory,
                           const CheckpointState& state, const std::vector<NamedTensor>& tensors,
                           Stream& stream, const SaveOptions& options = {});

// Takes the next bytes of a tensor.
using ByteSink = std::function<void(std::span<const std::byte>)>;

// A tensor to write, with a function that produces its bytes.
struct TensorSource {
  std::string name;
  std::vector<int64_t> shape;
  DType dtype = DType::F32;
  std::function<void(const ByteSink&)> produce;  // passes all bytes in order, in pieces
};

// The same as save_checkpoint, for tensors that are not on a device.
SaveReport write_checkpoint(Storage& storage, const std::string& directory,
                            const CheckpointState& state, const std::vector<TensorSource>& tensors,
                            const SaveOptions& options = {});

}  // namespace sextant
