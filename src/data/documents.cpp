#include "data/documents.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/json.h"

namespace sextant {
namespace {

using nlohmann::json;

constexpr size_t kBytesAtOnce = 1 << 20;

std::string field(const json& record, const char* key, const std::string& where) {
  SXT_CHECK(record.contains(key) && record[key].is_string(), Data, where,
            ": record has no string \"", key,
            "\"; it needs \"text\", or \"prompt\" and \"completion\"");
  return record[key].get<std::string>();
}

// A file of another kind is named, rather than that its bytes are no text.
void refuse_known_binary(std::span<const std::byte> bytes, const std::string& path) {
  struct Known {
    std::string_view begin;
    const char* what;
  };
  constexpr Known kKnown[] = {{"\x1f\x8b", "gzip"},
                              {"PAR1", "Parquet"},
                              {"PK\x03\x04", "a zip file"},
                              {"\xfd"
                               "7zXZ",
                               "xz"},
                              {"BZh", "bzip2"},
                              {"%PDF-", "PDF"},
                              {"\x89HDF", "HDF5"},
                              {"ARROW1", "Arrow"}};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Known& known : kKnown)
    SXT_CHECK(!text.starts_with(known.begin), Data, path, " is ", known.what,
              "; text, jsonl and both as .zst are read");
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Document parse_document(RawDocument raw) {
  if (!raw.is_json) {
    SXT_CHECK(raw.text.find('\0') == std::string::npos, Data, raw.where,
              " holds a zero byte: it is not text");
    return {"", std::move(raw.text), false};
  }
  const json record = parse_json_strict(raw.text, raw.where);
  SXT_CHECK(record.is_object(), Data, raw.where, ": a jsonl record must be an object, is ",
            record.type_name());
  if (!record.contains("prompt")) return {"", field(record, "text", raw.where), false};
  return {field(record, "prompt", raw.where), field(record, "completion", raw.where), true};
}

DocumentReader::DocumentReader(Storage& storage, const std::string& path, TextSplit split)
    : path_(path), split_(split), file_(storage.open(path)) {
  std::string_view name = path;
  refuse_known_binary(file_->bytes(), path);
  if (name.ends_with(".zst")) {
    zstd_.emplace(file_->bytes(), path);
    name.remove_suffix(4);
  }
  is_json_ = name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json");
}

bool DocumentReader::fill() {
  buffer_.erase(0, buffer_at_);
  buffer_at_ = 0;
  const size_t before = buffer_.size();
  if (zstd_) {
    buffer_.resize(before + kBytesAtOnce);
    buffer_.resize(before + zstd_->read(std::span(buffer_).subspan(before)));
  } else {
    const std::span<const std::byte> bytes = file_->bytes();
    const size_t count = std::min(kBytesAtOnce, bytes.size() - file_at_);
    buffer_.append(reinterpret_cast<const char*>(bytes.data()) + file_at_, count);
    file_at_ += count;
  }
  return buffer_.size() > before;
}

int64_t DocumentReader::taken() const {
  return static_cast<int64_t>(zstd_ ? zstd_->taken() : file_at_);
}

std::optional<RawDocument> DocumentReader::next() {
  if (is_done_) return std::nullopt;
  return is_json_ || split_ == TextSplit::Lines ? next_line() : next_file();
}

std::optional<RawDocument> DocumentReader::next_file() {
  while (fill()) {
  }
  is_done_ = true;
  if (buffer_.empty()) return std::nullopt;
  return RawDocument{std::move(buffer_), path_, false};
}

std::optional<RawDocument> DocumentReader::next_line() {
  size_t searched = buffer_at_;
  while (!is_done_) {
    const size_t end = buffer_.find('\n', searched);
    if (end == std::string::npos) {
      const size_t pending = buffer_.size() - buffer_at_;
      is_done_ = !fill();
      searched = pending;  // fill moved the pending line to the front
      if (!is_done_) continue;
    }
    const size_t stop = is_done_ ? buffer_.size() : end;
    std::string_view line(buffer_.data() + buffer_at_, stop - buffer_at_);
    buffer_at_ = searched = is_done_ ? stop : end + 1;
    ++line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (is_blank(line)) continue;
    return RawDocument{std::string(line), concat(path_, ":", line_), is_json_};
  }
  return std::nullopt;
}

int64_t stored_bytes(Storage& storage, std::span<const std::string> paths) {
  int64_t sum = 0;
  for (const std::string& path : paths)
    sum += static_cast<int64_t>(storage.open(path)->bytes().size());
  return sum;
}

}  // namespace sextant
