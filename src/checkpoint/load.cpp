#include "checkpoint/load.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/parse.h"
#include "checkpoint/parts.h"
#include "checkpoint/reader.h"
#include "formats/json.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

// "a, b, c and 4 more" for messages.
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  const size_t count = std::min(names.size(), kShown);
  const std::string text = join(std::span(names).first(count), ", ");
  return names.size() > count ? concat(text, " and ", names.size() - count, " more") : text;
}

bool is_wanted(std::string_view name, LoadWhat what) {
  return what == LoadWhat::All || !is_optimizer_tensor(name);
}

void check_names(const std::string& checkpoint, const Manifest& manifest,
                 const std::vector<NamedTensor>& tensors, LoadWhat what) {
  std::set<std::string_view> expected;
  std::vector<std::string> missing, unexpected;
  for (const NamedTensor& tensor : tensors) {
    if (!is_wanted(tensor.name, what)) continue;
    SXT_CHECK(expected.insert(tensor.name).second, Usage, "tensor ", tensor.name,
              " is asked for twice");
    if (manifest.find(tensor.name) == nullptr) missing.push_back(tensor.name);
  }
  for (const TensorEntry& entry : manifest.tensors)
    if (is_wanted(entry.name, what) && !expected.contains(entry.name))
      unexpected.push_back(entry.name);
  SXT_CHECK(missing.empty(), Data, checkpoint, ": lacks ", some_of(missing),
            ", which this run needs",
            unexpected.empty() ? "" : "; it has " + some_of(unexpected) + " instead");
  SXT_CHECK(unexpected.empty(), Data, checkpoint, ": has ", some_of(unexpected),
            ", which this run does not know");
}

// Rows of dim 0 that have the elements of the part, as far as they are stored.
Share rows_of(const TensorEntry& entry, const Part& part) {
  const Share stored = overlap(part.range, {0, elements_of(entry.shape)});
  if (stored.size() == 0) return {};
  const int64_t width = row_elements(entry.shape);
  return {stored.begin / width, (stored.end + width - 1) / width};
}

void check_tensor(CheckpointReader& reader, const std::string& checkpoint,
                  const NamedTensor& wanted) {
  const TensorEntry& entry = reader.at(wanted.name);
  const Part part = part_of(wanted);
  const std::vector<int64_t> shape = stored_shape(part);
  const DType dtype = part.range.size() == 0 ? entry.dtype : part.dtype;
  SXT_CHECK(entry.shape == shape && entry.dtype == dtype, Data, checkpoint, ": tensor ", entry.name,
            " is ", name_of(entry.dtype), " ", shape_text(entry.shape), ", this run needs ",
            name_of(dtype), " ", shape_text(shape));
  const Share rows = rows_of(entry, part);
  reader.check_rows(entry, rows.begin, rows.end);
}

// Returns the bytes that were read into the tensor.
int64_t fill(CheckpointReader& reader, const NamedTensor& named, Stream& stream,
             std::vector<std::byte>& buffer) {
  const TensorEntry& entry = reader.at(named.name);
  const Part part = part_of(named);
  if (part.range.size() == 0) return 0;
  const Share stored = overlap(part.range, {0, elements_of(entry.shape)});
  const int64_t width = row_elements(entry.shape), element_bytes = size_of(entry.dtype);
  const Share rows = rows_of(entry, part);
  const Tensor flat = named.tensor.view(Shape{part.range.size()});
  const int64_t block = std::max<int64_t>(1, kPassBytes / (width * element_bytes));
  for (int64_t begin = rows.begin; begin < rows.end; begin += block) {
    const int64_t end = std::min(rows.end, begin + block);
    buffer.resize(static_cast<size_t>((end - begin) * width * element_bytes));
    reader.read_rows(buffer, entry, begin, end);
    // The first row and the last may belong to the part in part.
    const Share both = overlap(stored, {begin * width, end * width});
    Tensor to = flat.slice(both.begin - part.range.begin, both.end - part.range.begin);
    copy_bytes_from_host(
        stream, to,
        std::span(buffer).subspan(static_cast<size_t>((both.begin - begin * width) * element_bytes),
                                  static_cast<size_t>(to.bytes())));
  }
  if (stored.end < part.range.end) {
    Tensor padding = flat.slice(stored.end - part.range.begin, part.range.size());
    fill_zero(stream, padding);
  }
  return stored.size() * element_bytes;
}

}  // namespace

Manifest read_manifest(Storage& storage, const std::string& checkpoint) {
  const std::string path = join_path(checkpoint, kManifestName);
  return parse_manifest(read_text(storage, path), path);
}

void check_sizes(Storage& storage, const std::string& checkpoint, const Manifest& manifest) {
  for (const ShardFile& file : manifest.files) {
    const std::string path = join_path(checkpoint, file.name);
    const auto bytes = static_cast<int64_t>(storage.open(path)->bytes().size());
    SXT_CHECK(bytes == file.bytes, Data, path, ": ", bytes, " bytes, the manifest says ",
              file.bytes);
  }
}

CheckpointReport verify_checkpoint(Storage& storage, const std::string& checkpoint) {
  const Manifest manifest = read_manifest(storage, checkpoint);
  check_sizes(storage, checkpoint, manifest);
  CheckpointReader reader(storage, checkpoint, manifest);
  for (const TensorEntry& entry : manifest.tensors) reader.check(entry);
  return {manifest.state.step, manifest.state.layout, static_cast<int64_t>(manifest.tensors.size()),
          static_cast<int64_t>(manifest.files.size()), manifest.file_bytes()};
}

LoadReport load_tensors(Storage& storage, const std::string& checkpoint, const Manifest& manifest,
                        std::vector<NamedTensor>& tensors, Stream& stream, LoadWhat what) {
  check_names(checkpoint, manifest, tensors, what);
  CheckpointReader reader(storage, checkpoint, manifest);
  for (const NamedTensor& tensor : tensors)
    if (is_wanted(tensor.name, what)) check_tensor(reader, checkpoint, tensor);
  LoadReport report;
  std::vector<std::byte> buffer;
  for (const NamedTensor& tensor : tensors) {
    if (!is_wanted(tensor.name, what)) continue;
    report.bytes += fill(reader, tensor, stream, buffer);
    if (part_of(tensor).range.size() > 0) ++report.tensors;
  }
  return report;
}

}  // namespace sextant
