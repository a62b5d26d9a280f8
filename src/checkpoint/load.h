#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/storage.h"
#include "checkpoint/directory.h"
#include "checkpoint/manifest.h"
#include "checkpoint/save.h"
#include "formats/tokenizer_files.h"
#include "parallel/param.h"

namespace sextant {

// `checkpoint` is the directory of one checkpoint (see resolve_checkpoint). Any defect of it is
// Error(Data), one line that names the file or tensor.

Manifest read_manifest(Storage& storage, const std::string& checkpoint);

// The tokenizer that the checkpoint keeps, every byte verified; empty: none.
TokenizerFiles read_tokenizer(Storage& storage, const std::string& checkpoint,
                              const Manifest& manifest);

// Checks that the shard files exist and have the sizes of the manifest.
void check_sizes(Storage& storage, const std::string& checkpoint, const Manifest& manifest);

struct CheckpointReport {
  int64_t step = 0;
  std::string layout;
  int64_t tensors = 0;
  int64_t files = 0;
  int64_t bytes = 0;  // of the shard files
};

// Verifies every byte: manifest, sizes, digests, and the position of each slice.
CheckpointReport verify_checkpoint(Storage& storage, const std::string& checkpoint);

enum class LoadWhat {
  Weights,  // ignores optimizer state, in the checkpoint and in `tensors`
  All,
};

struct LoadReport {
  int64_t tensors = 0;  // with elements on this rank
  int64_t bytes = 0;    // read into these
};

// Fills `tensors`, whole ones or parts, from the checkpoint by name; rows beyond valid_rows become
// zero. A tensor of another floating type than the stored one gets its values rounded to nearest.
// Checks everything first (digests of the files that it reads, shapes of the whole tensors, types,
// no tensor missing or left over), so that after an error no tensor has changed.
//
// Not collective: each rank calls it independently, with any number of ranks and whatever layout
// wrote the checkpoint. Each rank lists every tensor of the run once, with an empty part if it has
// none of it. The caller must detect failures of other ranks.
LoadReport load_tensors(Storage& storage, const std::string& checkpoint, const Manifest& manifest,
                        std::vector<NamedTensor>& tensors, Stream& stream, LoadWhat what);

// The same for weights that are made: `sources`, f32, of `name`.
LoadReport load_sources(const std::string& name, const std::vector<TensorSource>& sources,
                        std::vector<NamedTensor>& tensors, Stream& stream);

// Size of the host buffer through which tensors are copied, in bytes.
inline constexpr int64_t kPassBytes = int64_t{8} << 20;

}  // namespace sextant
