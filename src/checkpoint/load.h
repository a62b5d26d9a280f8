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

struct VerifyReport {
  int64_t step = 0;
  std::string layout;
  int64_t tensors = 0;
  int64_t files = 0;
  int64_t bytes = 0;  // of the shard files
};

// Reads every byte: manifest, lengths, digests, and that each slice lies where it should.
VerifyReport verify_checkpoint(Storage& storage, const std::string& checkpoint);

enum class LoadWhat {
  Weights,  // optimizer state is left out, of the checkpoint and of `tensors`
  All,
};

struct LoadReport {
  int64_t tensors = 0;
  int64_t bytes = 0;
};

// Fills `tensors` with what the checkpoint has under their names; rows beyond valid_rows become
// zero. Checks everything first (digests, shapes, types, no tensor missing, none left over), so
// that after an error no tensor has changed.
LoadReport load_tensors(Storage& storage, const std::string& checkpoint, const Manifest& manifest,
                        std::vector<NamedTensor>& tensors, Stream& stream, LoadWhat what);

// The stored shape of a tensor: without the rows of padding. Throws Error(Usage) when valid_rows is
// not between 1 and dim 0.
std::vector<int64_t> stored_shape(const NamedTensor& tensor);

// How much host memory a tensor passes through at a time, in bytes.
inline constexpr int64_t kPassBytes = int64_t{8} << 20;

}  // namespace sextant
