// Layout: u64 little-endian header length, JSON header, data. Offsets in the header count from the
// start of the data; sorted by them, tensors must follow each other without a gap up to the end.
#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "formats/json.h"

namespace sextant {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // the package's own limit
constexpr std::string_view kMetadata = "__metadata__";

struct TypeRow {
  std::string_view name;
  int bits;
};
constexpr std::array<TypeRow, 22> kTypes = {{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};
static_assert(kTypes.size() == static_cast<size_t>(StoredType::U64) + 1);

struct Extent {
  uint64_t begin, end;
};

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

uint64_t header_length(std::span<const std::byte> bytes, const std::string& what) {
  SXT_CHECK(bytes.size() >= kLengthBytes, Data, what, ": ", bytes.size(),
            " bytes is too short for a safetensors file, which begins with an 8 byte length");
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | std::to_integer<uint64_t>(bytes[i]);
  SXT_CHECK(length >= 2, Data, what, ": safetensors header of ", length,
            " bytes; the shortest, {}, has 2");
  SXT_CHECK(length <= kLongestHeader, Data, what, ": safetensors header of ", length,
            " bytes; at most ", kLongestHeader, " are allowed");
  SXT_CHECK(length <= bytes.size() - kLengthBytes, Data, what, ": safetensors header of ", length,
            " bytes runs past the end of the file, which has ", bytes.size(), " bytes");
  return length;
}

json parse_header(std::string_view text, const std::string& what) {
  SXT_CHECK(text.front() == '{', Data, what, ": safetensors header must begin with '{'");
  return parse_json_strict(text, what);
}

StoredType parse_type(const json& value, const std::string& who) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& type) {
    return value.is_string() && value.get_ref<const std::string&>() == type.name;
  });
  SXT_CHECK(row != kTypes.end(), Data, who, "dtype is ", shown(value.dump(-1, ' ', true)),
            ", which is no safetensors type such as F32, F16 or BF16");
  return static_cast<StoredType>(row - kTypes.begin());
}

const json& field(const json& info, const char* key, const std::string& who) {
  const auto found = info.find(key);
  SXT_CHECK(found != info.end(), Data, who, key, " is missing");
  return *found;
}

uint64_t parse_size(const json& value, const char* key, const std::string& who) {
  // "-0" and "2.0" are numbers of other kinds, refused like the package does.
  SXT_CHECK(value.is_number_unsigned(), Data, who, key, " has ", shown(value.dump(-1, ' ', true)),
            " where a whole number from 0 to 2^63 - 1 belongs");
  return value.get<uint64_t>();
}

std::vector<int64_t> parse_shape(const json& value, const std::string& who) {
  SXT_CHECK(value.is_array(), Data, who, "shape is not a list of dims");
  std::vector<int64_t> shape;
  shape.reserve(value.size());
  for (const json& dim : value) {
    const uint64_t size = parse_size(dim, "shape", who);
    SXT_CHECK(size <= INT64_MAX, Data, who, "shape has ", size, "; a dim is at most 2^63 - 1");
    shape.push_back(static_cast<int64_t>(size));
  }
  return shape;
}

Extent parse_range(const json& value, const std::string& who) {
  SXT_CHECK(value.is_array() && value.size() == 2, Data, who,
            "data_offsets is not a list of two numbers");
  const Extent range{parse_size(value[0], "data_offsets", who),
                     parse_size(value[1], "data_offsets", who)};
  SXT_CHECK(range.begin <= range.end, Data, who, "data_offsets [", range.begin, ", ", range.end,
            "] end before they begin");
  return range;
}

// Unsigned and in the order of the dims, as the package counts: [2^40, 2^40, 0] overflows.
uint64_t checked_bytes(const StoredEntry& entry, const std::string& who) {
  uint64_t bits = 1;
  bool overflow = false;
  for (const int64_t dim : entry.shape)
    overflow |= __builtin_mul_overflow(bits, static_cast<uint64_t>(dim), &bits);
  overflow |= __builtin_mul_overflow(bits, static_cast<uint64_t>(bit_size(entry.type)), &bits);
  SXT_CHECK(!overflow, Data, who, "the elements of its shape times the size of ",
            to_string(entry.type), " overflow 64 bits");
  SXT_CHECK(bits % 8 == 0, Data, who, to_string(entry.type), " data of ", bits,
            " bits does not fill whole bytes");
  return bits / 8;
}

std::map<std::string, std::string> parse_metadata(const json& value, const std::string& what) {
  std::map<std::string, std::string> out;
  if (value.is_null()) return out;
  SXT_CHECK(value.is_object(), Data, what, ": __metadata__ is not an object of strings");
  for (const auto& [key, text] : value.items()) {
    SXT_CHECK(text.is_string(), Data, what, ": __metadata__ key ", shown(key),
              " has a value that is not a string");
    out.emplace(key, text.get<std::string>());
  }
  return out;
}

struct Placed {
  StoredTensor tensor;
  Extent range;
};

Placed parse_tensor(const std::string& name, const json& info, const std::string& what) {
  const std::string who = what + ": tensor " + shown(name) + ": ";
  SXT_CHECK(info.is_object(), Data, who, "its entry is not an object");
  Placed out;
  out.tensor.name = name;
  out.tensor.type = parse_type(field(info, "dtype", who), who);
  out.tensor.shape = parse_shape(field(info, "shape", who), who);
  out.range = parse_range(field(info, "data_offsets", who), who);
  const uint64_t needed = checked_bytes(out.tensor, who);
  SXT_CHECK(out.range.end - out.range.begin == needed, Data, who, "data_offsets [", out.range.begin,
            ", ", out.range.end, "] do not fit the ", needed, " bytes that shape and dtype need");
  return out;
}

// Cuts the data into the tensors, which must cover it without overlaps or holes.
void place(std::vector<Placed>& placed, std::span<const std::byte> data, const std::string& what) {
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.range.begin, a.range.end, a.tensor.name) <
           std::tie(b.range.begin, b.range.end, b.tensor.name);
  });
  uint64_t covered = 0;
  for (Placed& item : placed) {
    SXT_CHECK(item.range.begin == covered, Data, what, ": tensor ", shown(item.tensor.name),
              ": data begins at ", item.range.begin, ", ",
              item.range.begin < covered ? "inside the tensor before it; " : "after a hole; ",
              covered, " would be right");
    SXT_CHECK(item.range.end <= data.size(), Data, what, ": tensor ", shown(item.tensor.name),
              ": data ends at ", item.range.end, ", past the end of the file's ", data.size(),
              " bytes of data");
    item.tensor.data = data.subspan(item.range.begin, item.range.end - item.range.begin);
    covered = item.range.end;
  }
  SXT_CHECK(covered == data.size(), Data, what, ": ", data.size() - covered,
            " bytes after the last tensor belong to none");
}

std::string header_text(const std::vector<StoredEntry>& entries,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text.append(json_quoted(kMetadata)).append(":{");
    for (const auto& [key, value] : metadata)
      text.append(json_quoted(key)).append(":").append(json_quoted(value)).append(",");
    text.back() = '}';
    text += ',';
  }
  int64_t offset = 0;
  for (const StoredEntry& entry : entries) {
    std::string dims;
    for (const int64_t dim : entry.shape) dims += (dims.empty() ? "" : ",") + std::to_string(dim);
    int64_t end = 0;
    SXT_CHECK(!__builtin_add_overflow(offset, byte_size(entry), &end), Usage, "tensor ",
              shown(entry.name), " ends past 2^63 bytes");
    text += concat(json_quoted(entry.name), ":{\"dtype\":\"", to_string(entry.type),
                   "\",\"shape\":[", dims, "],\"data_offsets\":[", offset, ",", end, "]},");
    offset = end;
  }
  if (text.back() == ',') text.pop_back();
  text += '}';
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  return text;
}

// Large elements first, so that every tensor stays aligned; names decide among equal types.
void sort_for_writing(std::vector<StoredEntry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const StoredEntry& a, const StoredEntry& b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });
}

void check_for_writing(const std::vector<StoredEntry>& entries) {
  std::map<std::string_view, int> seen;
  for (const StoredEntry& entry : entries) {
    SXT_CHECK(entry.name != kMetadata, Usage, "a tensor cannot be named ", kMetadata);
    SXT_CHECK(++seen[entry.name] == 1, Usage, "tensor ", shown(entry.name), " is written twice");
    for (const int64_t dim : entry.shape)
      SXT_CHECK(dim >= 0, Usage, "tensor ", shown(entry.name), " has dim ", dim);
  }
}

}  // namespace

std::string_view to_string(StoredType type) {
  return kTypes[static_cast<size_t>(type)].name;
}

int bit_size(StoredType type) {
  return kTypes[static_cast<size_t>(type)].bits;
}

int64_t byte_size(const StoredEntry& entry) {
  return static_cast<int64_t>(checked_bytes(entry, "tensor " + shown(entry.name) + ": "));
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes, const std::string& what)
    : what_(what) {
  read(bytes);
}

SafetensorsFile::SafetensorsFile(Storage& storage, const std::string& path)
    : what_(path), file_(storage.open(path)) {
  read(file_->bytes());
}

void SafetensorsFile::read(std::span<const std::byte> bytes) {
  const size_t length = header_length(bytes, what_);
  const json header = parse_header(as_text(bytes.subspan(kLengthBytes, length)), what_);
  std::vector<Placed> placed;
  for (const auto& [name, info] : header.items()) {
    if (name == kMetadata) {
      metadata_ = parse_metadata(info, what_);
    } else {
      placed.push_back(parse_tensor(name, info, what_));
    }
  }
  place(placed, bytes.subspan(kLengthBytes + length), what_);
  tensors_.reserve(placed.size());
  for (Placed& item : placed) tensors_.push_back(std::move(item.tensor));
  for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const StoredTensor& SafetensorsFile::at(std::string_view name) const {
  const StoredTensor* tensor = find(name);
  SXT_CHECK(tensor != nullptr, Data, what_, ": no tensor ", shown(name), " among its ",
            tensors_.size());
  return *tensor;
}

SafetensorsWriter::SafetensorsWriter(FileWriter& file, std::vector<StoredEntry> entries,
                                     const std::map<std::string, std::string>& metadata)
    : file_(file), entries_(std::move(entries)) {
  check_for_writing(entries_);
  sort_for_writing(entries_);
  const std::string header = header_text(entries_, metadata);
  SXT_CHECK(header.size() <= kLongestHeader, Usage, "safetensors header of ", header.size(),
            " bytes; at most ", kLongestHeader, " are allowed: write several files");
  std::array<std::byte, kLengthBytes> length;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length[i] = static_cast<std::byte>(header.size() >> 8 * i);
  file_.write(length);
  write_text(file_, header);
  if (!entries_.empty()) missing_ = byte_size(entries_.front());
  skip_done();
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  SXT_CHECK(due_ < entries_.size() && entries_[due_].name == name, Usage, "data of tensor ",
            shown(name), " is written when ",
            due_ < entries_.size() ? shown(entries_[due_].name) : "none", " is due");
  SXT_CHECK(bytes.size() <= static_cast<uint64_t>(missing_), Usage, "tensor ", shown(name),
            " gets ", bytes.size(), " bytes where ", missing_, " are left");
  file_.write(bytes);
  missing_ -= static_cast<int64_t>(bytes.size());
  skip_done();
}

void SafetensorsWriter::finish() const {
  SXT_CHECK(due_ == entries_.size(), Usage, "tensor ", shown(entries_[due_].name), " lacks ",
            missing_, " bytes of data");
}

void SafetensorsWriter::skip_done() {
  while (due_ < entries_.size() && missing_ == 0) {
    if (++due_ < entries_.size()) missing_ = byte_size(entries_[due_]);
  }
}

}  // namespace sextant
