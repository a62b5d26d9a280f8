#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/storage.h"

namespace sextant {

// The types of the format, with its names, in its order: writers put later ones first, so that
// data stays aligned.
enum class StoredType : uint8_t {
  BOOL,
  F4,
  F6_E2M3,
  F6_E3M2,
  U8,
  I8,
  F8_E5M2,
  F8_E4M3,
  F8_E8M0,
  F8_E4M3FNUZ,
  F8_E5M2FNUZ,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  C64,
  F64,
  I64,
  U64,
};

std::string_view to_string(StoredType type);
int bit_size(StoredType type);  // of one element

// A tensor before its data: what a header says about it.
struct StoredEntry {
  std::string name;
  StoredType type;
  std::vector<int64_t> shape;
};

// Bytes of all elements. Throws Error(Data) when they overflow or end inside a byte.
int64_t byte_size(const StoredEntry& entry);

// A tensor in a file. `data` need not be aligned for the type: copy, do not cast.
struct StoredTensor : StoredEntry {
  std::span<const std::byte> data;
};

// A checked view of a safetensors file. The constructor throws Error(Data) for everything that the
// `safetensors` package refuses, so what it lets through can be read without another check. It also
// refuses, as the format's text does though the package does not: duplicate keys, and a header that
// does not begin with '{'; and two spellings that only that package's parser knows: an entry as an
// array, a type as an object. A dim is at most 2^63 - 1.
class SafetensorsFile {
 public:
  // `bytes` must outlive this; `what` names them in errors.
  SafetensorsFile(std::span<const std::byte> bytes, const std::string& what);
  // Maps the file and keeps it mapped.
  SafetensorsFile(Storage& storage, const std::string& path);

  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in the order of the data
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const StoredTensor* find(std::string_view name) const;  // null when absent
  const StoredTensor& at(std::string_view name) const;    // Error(Data) when absent

 private:
  void read(std::span<const std::byte> bytes);

  std::string what_;
  std::unique_ptr<FileReader> file_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string_view, size_t> index_;  // views of the names in tensors_
  std::map<std::string, std::string> metadata_;
};

// Writes a safetensors file front to back: the header when it is made, then the data as it comes,
// none of it kept. The bytes depend on the arguments alone and equal those of the package's writer.
class SafetensorsWriter {
 public:
  // `file` must outlive this and be empty. Throws Error(Usage) for a name that occurs twice and for
  // a negative dim, Error(Data) for a name that is not UTF-8.
  SafetensorsWriter(FileWriter& file, std::vector<StoredEntry> entries,
                    const std::map<std::string, std::string>& metadata = {});

  // The entries in the order in which their data must be written.
  const std::vector<StoredEntry>& order() const { return entries_; }
  // The next bytes of tensor `name`, which must be the one that is due; as many pieces as one
  // likes.
  void write(std::string_view name, std::span<const std::byte> bytes);
  // Throws Error(Usage) when data is missing. Syncing the file is left to its owner.
  void finish() const;

 private:
  void skip_done();

  FileWriter& file_;
  std::vector<StoredEntry> entries_;
  size_t due_ = 0;       // entry whose data comes next
  int64_t missing_ = 0;  // bytes of it not yet written
};

}  // namespace sextant
