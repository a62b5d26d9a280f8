#include "checkpoint/manifest.h"

#include <array>

#include "base/error.h"
#include "checkpoint/digest.h"
#include "checkpoint/manifest_parts.h"
#include "formats/json.h"

namespace sextant {
namespace {

struct TypePair {
  DType dtype;
  StoredType stored;
};
constexpr std::array<TypePair, 8> kTypePairs = {{
    {DType::F64, StoredType::F64},
    {DType::F32, StoredType::F32},
    {DType::BF16, StoredType::BF16},
    {DType::F16, StoredType::F16},
    {DType::F8E4M3, StoredType::F8_E4M3},
    {DType::F8E5M2, StoredType::F8_E5M2},
    {DType::I32, StoredType::I32},
    {DType::I64, StoredType::I64},
}};

std::string line(const ShardFile& file) {
  return concat("{\"name\": ", json_quoted(file.name), ", \"bytes\": ", file.bytes,
                ", \"xxh3_128\": ", json_quoted(file.xxh3_128), "}");
}

std::string line(const TensorSlice& slice) {
  return concat("{\"start\": ", shape_text(slice.box.start),
                ", \"size\": ", shape_text(slice.box.size), ", \"file\": ", json_quoted(slice.file),
                ", \"tensor\": ", json_quoted(slice.tensor), "}");
}

std::string line(const TensorEntry& tensor) {
  std::string slices;
  for (const TensorSlice& slice : tensor.slices)
    slices += (slices.empty() ? "" : ", ") + line(slice);
  return concat("{\"name\": ", json_quoted(tensor.name), ", \"shape\": ", shape_text(tensor.shape),
                ", \"dtype\": \"", to_string(stored_type(tensor.dtype)), "\", \"slices\": [",
                slices, "]}");
}

template <class Items>
std::string lines(const Items& items) {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "\n    " : ",\n    ") + line(item);
  return "[" + out + "\n  ]";
}

}  // namespace

const TensorEntry* Manifest::find(std::string_view name) const {
  for (const TensorEntry& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

int64_t Manifest::file_bytes() const {
  int64_t bytes = 0;
  for (const ShardFile& file : files) bytes += file.bytes;
  return bytes;
}

bool is_optimizer_tensor(std::string_view name) {
  return name.starts_with("optim.");
}

StoredType stored_type(DType dtype) {
  for (const TypePair& pair : kTypePairs)
    if (pair.dtype == dtype) return pair.stored;
  SXT_FAIL(Internal, "type ", name_of(dtype), " has no stored form");
}

std::optional<DType> dtype_of(StoredType type) {
  for (const TypePair& pair : kTypePairs)
    if (pair.stored == type) return pair.dtype;
  return std::nullopt;
}

std::string to_json(const Manifest& manifest) {
  const CheckpointState& state = manifest.state;
  std::string out = concat(
      "{\n  \"format\": ", json_quoted(kManifestFormat),
      ",\n  \"version\": ", manifest.tokenizer.empty() ? kManifestVersion : kManifestWithTokenizer,
      ",\n  \"step\": ", state.step, ",\n  \"cursor\": {\"epoch\": ", state.cursor.epoch,
      ", \"index\": ", state.cursor.index, "},\n  \"seed\": ", state.seed,
      ",\n  \"layout\": ", json_quoted(state.layout),
      ",\n  \"config\": ", json_quoted(state.config), ",\n  \"files\": ", lines(manifest.files),
      manifest.tokenizer.empty() ? "" : ",\n  \"tokenizer\": " + lines(manifest.tokenizer),
      ",\n  \"tensors\": ", lines(manifest.tensors), ",\n  ");
  const std::string digest = digest_of(out);
  return out + manifest_tail(digest);
}

std::string manifest_tail(const std::string& digest) {
  return concat("\"", kManifestDigestKey, "\": \"", digest, "\"\n}\n");
}

}  // namespace sextant
