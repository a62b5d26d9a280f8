#include "checkpoint/load.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/parse.h"
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

void check_tensor(const std::string& checkpoint, const TensorEntry& entry,
                  const NamedTensor& wanted) {
  const std::vector<int64_t> shape = stored_shape(wanted);
  SXT_CHECK(entry.shape == shape && entry.dtype == wanted.tensor.dtype(), Data, checkpoint,
            ": tensor ", entry.name, " is ", name_of(entry.dtype), " ", shape_text(entry.shape),
            ", this run needs ", name_of(wanted.tensor.dtype()), " ", shape_text(shape));
}

void fill(CheckpointReader& reader, const TensorEntry& entry, const NamedTensor& named,
          Stream& stream, std::vector<std::byte>& buffer) {
  const int64_t rows = row_count(entry.shape);
  const int64_t row_bytes = row_elements(entry.shape) * size_of(entry.dtype);
  const int64_t block = std::max<int64_t>(1, kPassBytes / row_bytes);
  // A tensor without dims is one row.
  Tensor tensor = entry.shape.empty() ? named.tensor.view(Shape{1}) : named.tensor;
  for (int64_t begin = 0; begin < rows; begin += block) {
    const int64_t end = std::min(rows, begin + block);
    buffer.resize(static_cast<size_t>((end - begin) * row_bytes));
    reader.read_rows(buffer, entry, begin, end);
    Tensor part = tensor.slice(begin, end);
    copy_bytes_from_host(stream, part, buffer);
  }
  if (tensor.dim(0) > rows) {
    Tensor padding = tensor.slice(rows, tensor.dim(0));
    fill_zero(stream, padding);
  }
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

VerifyReport verify_checkpoint(Storage& storage, const std::string& checkpoint) {
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
  for (const NamedTensor& tensor : tensors) {
    if (!is_wanted(tensor.name, what)) continue;
    check_tensor(checkpoint, reader.at(tensor.name), tensor);
    reader.check(reader.at(tensor.name));
  }
  LoadReport report;
  std::vector<std::byte> buffer;
  for (const NamedTensor& tensor : tensors) {
    if (!is_wanted(tensor.name, what)) continue;
    const TensorEntry& entry = reader.at(tensor.name);
    fill(reader, entry, tensor, stream, buffer);
    ++report.tensors;
    report.bytes += entry.bytes();
  }
  return report;
}

std::vector<int64_t> stored_shape(const NamedTensor& named) {
  const std::span<const int64_t> sizes = named.tensor.shape().sizes();
  std::vector<int64_t> shape(sizes.begin(), sizes.end());
  if (shape.empty()) return shape;
  SXT_CHECK(1 <= named.valid_rows && named.valid_rows <= shape[0], Usage, "tensor ", named.name,
            " ", named.tensor.shape(), " has valid_rows ", named.valid_rows, "; 1 to ", shape[0],
            " is right");
  shape[0] = named.valid_rows;
  return shape;
}

}  // namespace sextant
