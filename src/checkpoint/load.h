#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/storage.h"
#include "checkpoint/directory.h"
#include "checkpoint/manifest.h"
#include "parallel/param.h"

namespace sextant {

// `checkpoint` is everywhere the directory of one checkpoint (see resolve_checkpoint). Whatever is
// wrong with it is Error(Data), one line that names the file or tensor.

Manifest read_manifest(Storage& storage, const std::string& checkpoint);

// The shard files are there and as long as the manifest says.
void check_sizes(Storage& storage, const std::string& checkpoint, const Manifest& manifest);

struct CheckpointReport {
  int64_t step = 0;
  std::string layout;
  int64_t tensors = 0;
  int64_t files = 0;
  int64_t bytes = 0;  // of the shard files
};

// Reads every byte: manifest, lengths, digests, and that each slice lies where it should.
CheckpointReport verify_checkpoint(Storage& storage, const std::string& checkpoint);

enum class LoadWhat {
  Weights,  // optimizer state is left out, of the checkpoint and of `tensors`
  All,
};

struct LoadReport {
  int64_t tensors = 0;  // that have elements here
  int64_t bytes = 0;    // read into them
};

// Fills `tensors`, whole ones or parts, with what the checkpoint has under their names; rows beyond
// valid_rows become zero. Checks everything first (digests of the files that it reads, shapes of
// the whole tensors, types, no tensor missing, none left over), so that after an error no tensor
// has changed.
//
// Ranks call it each for itself, however many there are and whoever wrote the checkpoint. Each
// names every tensor of the run once; of what it has no part, that part is empty. That another rank
// failed is for the caller to find out: nothing is said to peers here.
LoadReport load_tensors(Storage& storage, const std::string& checkpoint, const Manifest& manifest,
                        std::vector<NamedTensor>& tensors, Stream& stream, LoadWhat what);

// How much host memory a tensor passes through at a time, in bytes.
inline constexpr int64_t kPassBytes = int64_t{8} << 20;

}  // namespace sextant
