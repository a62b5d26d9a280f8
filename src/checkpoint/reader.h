#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/storage.h"
#include "checkpoint/manifest.h"
#include "formats/safetensors.h"

namespace sextant {

// Reads the tensors of one checkpoint on the host. A shard file is mapped when first needed, and
// its size and digest are checked then. Throws Error(Data).
class CheckpointReader {
 public:
  // Both must outlive this.
  CheckpointReader(Storage& storage, std::string checkpoint, const Manifest& manifest);
  ~CheckpointReader();

  const Manifest& manifest() const { return manifest_; }
  // The entry of this name.
  const TensorEntry& at(std::string_view name) const;
  // Checks that every slice of the tensor is in its file, with the type and shape of the manifest.
  void check(const TensorEntry& entry);
  // The same for the slices that read_rows needs for rows begin ... end - 1.
  void check_rows(const TensorEntry& entry, int64_t begin, int64_t end);
  // Reads rows begin ... end - 1 of dim 0 (a tensor without dims has one row), assembled from all
  // slices that contain part of them. `to` has exactly the size of these rows.
  void read_rows(std::span<std::byte> to, const TensorEntry& entry, int64_t begin, int64_t end);
  // Unmaps the file, which can be large.
  void close(const std::string& file);

 private:
  struct OpenFile;
  const SafetensorsFile& file(const std::string& name);
  const StoredTensor& slice(const TensorEntry& entry, const TensorSlice& slice);

  Storage& storage_;
  std::string checkpoint_;
  const Manifest& manifest_;
  std::map<std::string, std::unique_ptr<OpenFile>> files_;
};

int64_t row_count(std::span<const int64_t> shape);     // dim 0; 1 without dims
int64_t row_elements(std::span<const int64_t> shape);  // elements of one row

}  // namespace sextant
