#include "checkpoint/reader.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/digest.h"
#include "formats/json.h"

namespace sextant {

struct CheckpointReader::OpenFile {
  OpenFile(std::unique_ptr<FileReader> mapped, const std::string& path)
      : reader(std::move(mapped)), tensors(reader->bytes(), path) {}
  std::unique_ptr<FileReader> reader;
  SafetensorsFile tensors;
};

namespace {

Box box_of_rows(const TensorEntry& entry, int64_t begin, int64_t end) {
  Box rows = whole_box(entry.shape);
  if (entry.shape.empty()) return rows;
  rows.start[0] = begin;
  rows.size[0] = end - begin;
  return rows;
}

}  // namespace

CheckpointReader::CheckpointReader(Storage& storage, std::string checkpoint,
                                   const Manifest& manifest)
    : storage_(storage), checkpoint_(std::move(checkpoint)), manifest_(manifest) {}

CheckpointReader::~CheckpointReader() = default;

const TensorEntry& CheckpointReader::at(std::string_view name) const {
  const TensorEntry* entry = manifest_.find(name);
  SXT_CHECK(entry != nullptr, Data, checkpoint_, ": has no tensor ", shown(name));
  return *entry;
}

const SafetensorsFile& CheckpointReader::file(const std::string& name) {
  std::unique_ptr<OpenFile>& open = files_[name];
  if (open) return open->tensors;
  const auto listed = std::find_if(manifest_.files.begin(), manifest_.files.end(),
                                   [&](const ShardFile& file) { return file.name == name; });
  SXT_CHECK(listed != manifest_.files.end(), Internal, name, " is not in the manifest");
  const std::string path = join_path(checkpoint_, name);
  std::unique_ptr<FileReader> reader = storage_.open(path);
  const auto bytes = static_cast<int64_t>(reader->bytes().size());
  SXT_CHECK(bytes == listed->bytes, Data, path, ": ", bytes, " bytes, the manifest says ",
            listed->bytes);
  const std::string digest = digest_of(reader->bytes());
  SXT_CHECK(digest == listed->xxh3_128, Data, path, ": damaged: its XXH3-128 is ", digest,
            ", the manifest says ", listed->xxh3_128);
  open = std::make_unique<OpenFile>(std::move(reader), path);
  return open->tensors;
}

const StoredTensor& CheckpointReader::slice(const TensorEntry& entry, const TensorSlice& slice) {
  const StoredTensor& stored = file(slice.file).at(slice.tensor);
  SXT_CHECK(stored.shape == slice.box.size && stored.type == stored_type(entry.dtype), Data,
            join_path(checkpoint_, slice.file), ": tensor ", shown(slice.tensor), " is ",
            to_string(stored.type), " ", shape_text(stored.shape), ", the manifest says ",
            to_string(stored_type(entry.dtype)), " ", shape_text(slice.box.size));
  return stored;
}

void CheckpointReader::check(const TensorEntry& entry) {
  for (const TensorSlice& part : entry.slices) slice(entry, part);
}

void CheckpointReader::check_rows(const TensorEntry& entry, int64_t begin, int64_t end) {
  if (begin == end) return;
  const Box rows = box_of_rows(entry, begin, end);
  for (const TensorSlice& part : entry.slices)
    if (is_overlapping(rows, part.box)) slice(entry, part);
}

void CheckpointReader::read_rows(std::span<std::byte> to, const TensorEntry& entry, int64_t begin,
                                 int64_t end) {
  const Box rows = box_of_rows(entry, begin, end);
  for (const TensorSlice& part : entry.slices)
    if (is_overlapping(rows, part.box))
      copy_box(to, rows, slice(entry, part).data, part.box, size_of(entry.dtype));
}

void CheckpointReader::close(const std::string& file) {
  files_.erase(file);
}

int64_t row_count(std::span<const int64_t> shape) {
  return shape.empty() ? 1 : shape[0];
}

int64_t row_elements(std::span<const int64_t> shape) {
  return shape.empty() ? 1 : elements_of(shape.subspan(1));
}

}  // namespace sextant
