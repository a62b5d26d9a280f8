// Consistency checks between the fields of a parsed manifest.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "checkpoint/manifest_parts.h"
#include "formats/json.h"
#include "formats/tokenizer_files.h"

namespace sextant {
namespace {

constexpr size_t kMaxDims = 5;
constexpr int64_t kLargestTensor = int64_t{1} << 62;  // bytes; two of them can still be added

// Whether a name stays inside the checkpoint's directory and is not another of its files.
bool is_shard_name(std::string_view name) {
  constexpr std::string_view kEnd = ".safetensors";
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
  return plain && name.size() > kEnd.size() && name.ends_with(kEnd) && !name.starts_with('.');
}

bool is_digest(std::string_view text) {
  return text.size() == 32 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::set<std::string_view> check_files(const Manifest& manifest, const std::string& what) {
  std::set<std::string_view> names;
  for (const ShardFile& file : manifest.files) {
    SXT_CHECK(is_shard_name(file.name), Data, what, ": file name ", shown(file.name),
              "; lower-case letters, digits, '-', '_' and '.', ending in .safetensors, are right");
    SXT_CHECK(names.insert(file.name).second, Data, what, ": file ", file.name, " is listed twice");
    SXT_CHECK(file.bytes > 0, Data, what, ": file ", file.name, " has ", file.bytes, " bytes");
    SXT_CHECK(is_digest(file.xxh3_128), Data, what, ": file ", file.name, ": xxh3_128 ",
              shown(file.xxh3_128), " is not 32 hexadecimal digits");
  }
  return names;
}

// Checks the shape and returns its number of elements, which must not overflow.
int64_t check_shape(const TensorEntry& tensor, const std::string& who) {
  SXT_CHECK(tensor.shape.size() <= kMaxDims, Data, who, tensor.shape.size(), " dims; at most ",
            kMaxDims, " are possible");
  int64_t bytes = size_of(tensor.dtype);
  for (const int64_t size : tensor.shape) {
    SXT_CHECK(size > 0, Data, who, "shape ", shape_text(tensor.shape), " has a dim of ", size);
    const bool overflow = __builtin_mul_overflow(bytes, size, &bytes) || bytes > kLargestTensor;
    SXT_CHECK(!overflow, Data, who, "shape ", shape_text(tensor.shape), " is beyond 2^62 bytes");
  }
  return elements_of(tensor.shape);
}

void check_box(const Box& box, const TensorEntry& tensor, const std::string& who) {
  const size_t dims = tensor.shape.size();
  SXT_CHECK(box.start.size() == dims && box.size.size() == dims, Data, who, "slice of ",
            box.start.size(), " starts and ", box.size.size(), " sizes for ", dims, " dims");
  for (size_t dim = 0; dim < dims; ++dim)
    SXT_CHECK(box.start[dim] >= 0 && box.size[dim] > 0 && box.size[dim] <= tensor.shape[dim] &&
                  box.start[dim] <= tensor.shape[dim] - box.size[dim],
              Data, who, "slice from ", shape_text(box.start), " of size ", shape_text(box.size),
              " lies outside of ", shape_text(tensor.shape));
}

// With slices sorted by first row, a slice can overlap only those that begin before it ends.
void check_disjoint(const TensorEntry& tensor, const std::string& who) {
  std::vector<const Box*> boxes;
  for (const TensorSlice& slice : tensor.slices) boxes.push_back(&slice.box);
  std::sort(boxes.begin(), boxes.end(),
            [](const Box* a, const Box* b) { return a->start < b->start; });
  for (size_t i = 0; i < boxes.size(); ++i)
    for (size_t j = i + 1; j < boxes.size(); ++j) {
      if (!tensor.shape.empty() && boxes[j]->start[0] >= boxes[i]->start[0] + boxes[i]->size[0])
        break;
      SXT_CHECK(!is_overlapping(*boxes[i], *boxes[j]), Data, who, "slices from ",
                shape_text(boxes[i]->start), " and ", shape_text(boxes[j]->start), " overlap");
    }
}

void check_tokenizer(const Manifest& manifest, const std::string& what) {
  for (size_t i = 0; i < manifest.tokenizer.size(); ++i) {
    const ShardFile& file = manifest.tokenizer[i];
    SXT_CHECK(is_tokenizer_file(file.name) && (file.name == kTokenizerJson) == (i == 0), Data, what,
              ": file ", shown(file.name), " of the tokenizer; ", kTokenizerJson,
              " comes first, then its companions");
    SXT_CHECK(file.bytes >= 0 && is_digest(file.xxh3_128), Data, what, ": file ", file.name,
              ": xxh3_128 ", shown(file.xxh3_128), " is not 32 hexadecimal digits");
  }
}

}  // namespace

void check_manifest(const Manifest& manifest, const std::string& what) {
  const std::set<std::string_view> files = check_files(manifest, what);
  check_tokenizer(manifest, what);
  std::set<std::string_view> names, used;
  std::set<std::pair<std::string_view, std::string_view>> places;
  for (const TensorEntry& tensor : manifest.tensors) {
    const std::string who = what + ": tensor " + shown(tensor.name) + ": ";
    SXT_CHECK(names.insert(tensor.name).second, Data, who, "listed twice");
    const int64_t elements = check_shape(tensor, who);
    int64_t covered = 0;
    for (const TensorSlice& slice : tensor.slices) {
      check_box(slice.box, tensor, who);
      SXT_CHECK(files.contains(slice.file), Data, who, "file ", shown(slice.file),
                " is not in the list of files");
      SXT_CHECK(places.emplace(slice.file, slice.tensor).second, Data, who, "tensor ",
                shown(slice.tensor), " of ", slice.file, " is used twice");
      used.insert(slice.file);
      covered += elements_of(slice.box.size);
      SXT_CHECK(covered <= elements, Data, who, "slices overlap");
    }
    check_disjoint(tensor, who);
    SXT_CHECK(covered == elements, Data, who, "slices hold ", covered, " of its ", elements,
              " elements");
  }
  for (const std::string_view file : files)
    SXT_CHECK(used.contains(file), Data, what, ": file ", file, " holds no tensor");
}

}  // namespace sextant
