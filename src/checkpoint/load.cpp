#include "checkpoint/load.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/parse.h"
#include "checkpoint/digest.h"
#include "checkpoint/parts.h"
#include "checkpoint/reader.h"
#include "formats/json.h"
#include "parallel/delayed_scales.h"
#include "tensor/convert.h"
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

// State of one precision, or of one scope of the balance loss: other runs ignore it, and a run may
// go on without it. A load of experts that is not known is zero, as at the start of a run.
bool is_optional(std::string_view name) {
  return name == kLossScaleTensor || name.starts_with(kAmaxHistory) ||
         name.ends_with(".router.load");
}

// What may be absent of a checkpoint.
bool is_absent(const Manifest& manifest, const NamedTensor& tensor) {
  return is_optional(tensor.name) && manifest.find(tensor.name) == nullptr;
}

void check_names(const std::string& checkpoint, const Manifest& manifest,
                 const std::vector<NamedTensor>& tensors, LoadWhat what) {
  std::set<std::string_view> expected;
  std::vector<std::string> missing, unexpected;
  for (const NamedTensor& tensor : tensors) {
    if (!is_wanted(tensor.name, what)) continue;
    SXT_CHECK(expected.insert(tensor.name).second || !tensor.fragment.rows.empty(), Usage,
              "tensor ", tensor.name, " is asked for twice");
    if (manifest.find(tensor.name) == nullptr && !is_optional(tensor.name))
      missing.push_back(tensor.name);
  }
  for (const TensorEntry& entry : manifest.tensors)
    if (is_wanted(entry.name, what) && !expected.contains(entry.name) && !is_optional(entry.name))
      unexpected.push_back(entry.name);
  SXT_CHECK(missing.empty(), Data, checkpoint, ": lacks ", some_of(missing),
            ", which this run needs",
            unexpected.empty() ? "" : "; it has " + some_of(unexpected) + " instead");
  SXT_CHECK(unexpected.empty(), Data, checkpoint, ": has ", some_of(unexpected),
            ", which this run does not know");
}

// The stored rows of dim 0 that contain elements of the parts.
Range rows_of(const TensorEntry& entry, const std::vector<Part>& parts) {
  const int64_t width = row_elements(entry.shape);
  Range rows{row_count(entry.shape), 0};
  for (const Part& part : parts) {
    const Range stored = overlap(part.range, {0, elements_of(entry.shape)});
    if (stored.size() == 0) continue;
    rows.begin = std::min(rows.begin, stored.begin / width);
    rows.end = std::max(rows.end, (stored.end + width - 1) / width);
  }
  return rows.begin < rows.end ? rows : Range{};
}

void check_tensor(CheckpointReader& reader, const std::string& checkpoint,
                  const NamedTensor& wanted) {
  const TensorEntry& entry = reader.at(wanted.name);
  const std::vector<Part> parts = parts_of(wanted);
  const std::vector<int64_t> shape = stored_shape(parts[0]);
  const DType dtype = parts[0].range.size() == 0 ? entry.dtype : parts[0].dtype;
  const bool has_type = entry.dtype == dtype || (is_floating(entry.dtype) && is_floating(dtype));
  SXT_CHECK(entry.shape == shape && has_type, Data, checkpoint, ": tensor ", entry.name, " is ",
            name_of(entry.dtype), " ", shape_text(entry.shape), ", this run needs ", name_of(dtype),
            " ", shape_text(shape));
  const Range rows = rows_of(entry, parts);
  reader.check_rows(entry, rows.begin, rows.end);
}

// Copies the elements of the sorted `parts` that are in `buffer` to `flat`. `buffer` holds elements
// of the whole from `first` on.
void fill_from(std::span<const std::byte> buffer, int64_t first, const std::vector<Part>& parts,
               const Tensor& flat, Stream& stream) {
  const int64_t element_bytes = size_of(flat.dtype());
  const Range there{first, first + static_cast<int64_t>(buffer.size()) / element_bytes};
  auto part = std::ranges::lower_bound(parts, there.begin, std::less_equal{},
                                       [](const Part& one) { return one.range.end; });
  for (; part != parts.end() && part->range.begin < there.end; ++part) {
    const Range both = overlap(part->range, there);
    const int64_t at = part->offset + both.begin - part->range.begin;
    Tensor to = flat.slice(at, at + both.size());
    copy_bytes_from_host(stream, to,
                         buffer.subspan(static_cast<size_t>((both.begin - first) * element_bytes),
                                        static_cast<size_t>(to.bytes())));
  }
}

// To another floating type, rounded to nearest.
void convert_buffer(std::vector<std::byte>& buffer, DType from, DType to) {
  const int64_t count = static_cast<int64_t>(buffer.size()) / size_of(from);
  std::vector<std::byte> converted(static_cast<size_t>(count * size_of(to)));
  convert(to, converted.data(), from, buffer.data(), count);
  buffer.swap(converted);
}

// Zeros rows that are not stored; returns the elements that are.
int64_t fill_padding(const std::vector<int64_t>& shape, const std::vector<Part>& parts,
                     const Tensor& flat, Stream& stream) {
  int64_t stored = 0;
  for (const Part& part : parts) {
    const int64_t own = overlap(part.range, {0, elements_of(shape)}).size();
    stored += own;
    if (own == part.range.size()) continue;
    Tensor padding = flat.slice(part.offset + own, part.offset + part.range.size());
    fill_zero(stream, padding);
  }
  return stored;
}

// Returns the bytes read into the tensor.
int64_t fill(CheckpointReader& reader, const NamedTensor& named, Stream& stream,
             std::vector<std::byte>& buffer) {
  if (!named.tensor || named.tensor.elements() == 0) return 0;
  const TensorEntry& entry = reader.at(named.name);
  const std::vector<Part> parts = parts_of(named);
  const int64_t width = row_elements(entry.shape), element_bytes = size_of(entry.dtype);
  const Range rows = rows_of(entry, parts);
  const Tensor flat = named.tensor.view(Shape{named.tensor.elements()});
  const int64_t block = std::max<int64_t>(1, kPassBytes / (width * element_bytes));
  for (int64_t begin = rows.begin; begin < rows.end; begin += block) {
    const int64_t end = std::min(rows.end, begin + block);
    buffer.resize(static_cast<size_t>((end - begin) * width * element_bytes));
    reader.read_rows(buffer, entry, begin, end);
    if (entry.dtype != flat.dtype()) convert_buffer(buffer, entry.dtype, flat.dtype());
    fill_from(buffer, begin * width, parts, flat, stream);
  }
  return fill_padding(entry.shape, parts, flat, stream) * element_bytes;
}

int64_t fill(const TensorSource& source, const NamedTensor& named, Stream& stream) {
  if (!named.tensor || named.tensor.elements() == 0) return 0;
  const std::vector<Part> parts = parts_of(named);
  const Tensor flat = named.tensor.view(Shape{named.tensor.elements()});
  std::vector<std::byte> buffer;
  int64_t done = 0;
  source.produce([&](std::span<const std::byte> bytes) {
    buffer.assign(bytes.begin(), bytes.end());
    if (source.dtype != flat.dtype()) convert_buffer(buffer, source.dtype, flat.dtype());
    fill_from(buffer, done, parts, flat, stream);
    done += static_cast<int64_t>(bytes.size()) / size_of(source.dtype);
  });
  return fill_padding(source.shape, parts, flat, stream) * size_of(source.dtype);
}

}  // namespace

Manifest read_manifest(Storage& storage, const std::string& checkpoint) {
  const std::string path = join_path(checkpoint, kManifestName);
  return parse_manifest(read_text(storage, path), path);
}

TokenizerFiles read_tokenizer(Storage& storage, const std::string& checkpoint,
                              const Manifest& manifest) {
  TokenizerFiles out;
  for (const ShardFile& file : manifest.tokenizer) {
    const std::string path = join_path(checkpoint, file.name);
    out.files.push_back({file.name, read_text(storage, path)});
    SXT_CHECK(digest_of(out.files.back().content) == file.xxh3_128, Data, path,
              ": damaged: its digest is not that of the manifest");
  }
  return out;
}

void check_sizes(Storage& storage, const std::string& checkpoint, const Manifest& manifest) {
  for (const std::vector<ShardFile>* files : {&manifest.files, &manifest.tokenizer})
    for (const ShardFile& file : *files) {
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
  read_tokenizer(storage, checkpoint, manifest);
  return {manifest.state.step, manifest.state.layout, static_cast<int64_t>(manifest.tensors.size()),
          static_cast<int64_t>(manifest.files.size()), manifest.file_bytes()};
}

LoadReport load_tensors(Storage& storage, const std::string& checkpoint, const Manifest& manifest,
                        std::vector<NamedTensor>& tensors, Stream& stream, LoadWhat what) {
  check_names(checkpoint, manifest, tensors, what);
  CheckpointReader reader(storage, checkpoint, manifest);
  for (const NamedTensor& tensor : tensors)
    if (is_wanted(tensor.name, what) && !is_absent(manifest, tensor))
      check_tensor(reader, checkpoint, tensor);
  LoadReport report;
  std::vector<std::byte> buffer;
  for (const NamedTensor& tensor : tensors) {
    if (!is_wanted(tensor.name, what) || is_absent(manifest, tensor)) continue;
    report.bytes += fill(reader, tensor, stream, buffer);
    if (tensor.tensor && tensor.tensor.elements() > 0) ++report.tensors;
  }
  return report;
}

LoadReport load_sources(const std::string& name, const std::vector<TensorSource>& sources,
                        std::vector<NamedTensor>& tensors, Stream& stream) {
  const auto source_of = [&](const NamedTensor& tensor) {
    const auto found = std::ranges::find(sources, tensor.name, &TensorSource::name);
    SXT_CHECK(found != sources.end() || is_optional(tensor.name), Data, name, ": lacks ",
              tensor.name, ", which this run needs");
    return found == sources.end() ? nullptr : &*found;
  };
  for (const NamedTensor& tensor : tensors)
    if (const TensorSource* source = source_of(tensor)) {
      const std::vector<int64_t> shape = stored_shape(parts_of(tensor)[0]);
      SXT_CHECK(source->shape == shape, Data, name, ": tensor ", tensor.name, " is ",
                shape_text(source->shape), ", this run needs ", shape_text(shape));
    }
  LoadReport report;
  for (const NamedTensor& tensor : tensors) {
    const TensorSource* source = source_of(tensor);
    if (source == nullptr) continue;
    report.bytes += fill(*source, tensor, stream);
    if (tensor.tensor && tensor.tensor.elements() > 0) ++report.tensors;
  }
  return report;
}

}  // namespace sextant
