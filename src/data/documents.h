#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/storage.h"
#include "data/zstd_stream.h"

namespace sextant {

enum class TextSplit { File, Lines };  // a document is a text file, or each of its lines

// An unparsed document.
struct RawDocument {
  std::string text;   // for jsonl: the line
  std::string where;  // "file" or "file:line"
  bool is_json = false;
};

// A document: its text, or a prompt and the completion to learn.
struct Document {
  std::string prompt;  // not in the loss
  std::string text;
  bool has_prompt = false;
};

// Parses "text", or "prompt" and "completion", of a jsonl record. Throws Error(Data).
Document parse_document(RawDocument raw);

// The documents of one file in order: .jsonl, .ndjson or .json (one record per line), otherwise
// plain text; optionally .zst. Blank lines are skipped. Throws Error(Data).
class DocumentReader {
 public:
  DocumentReader(Storage& storage, const std::string& path, TextSplit split);

  std::optional<RawDocument> next();
  int64_t taken() const;  // bytes of the file read so far, as stored

 private:
  bool fill();  // reads more text into the buffer; false at the end
  std::optional<RawDocument> next_file();
  std::optional<RawDocument> next_line();

  std::string path_;
  bool is_json_;
  TextSplit split_;
  std::unique_ptr<FileReader> file_;
  std::optional<ZstdStream> zstd_;
  size_t file_at_ = 0;  // offset in an uncompressed file
  std::string buffer_;
  size_t buffer_at_ = 0;
  int64_t line_ = 0;
  bool is_done_ = false;
};

// Bytes of these files, as stored. Throws Error(Data) for one that is missing.
int64_t stored_bytes(Storage& storage, std::span<const std::string> paths);

}  // namespace sextant
