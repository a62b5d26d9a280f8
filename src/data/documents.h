#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/storage.h"
#include "data/zstd_stream.h"

namespace sextant {

enum class TextSplit { File, Lines };  // a document is a text file, or each of its lines

// A document as it lies in its file, not yet parsed.
struct RawDocument {
  std::string text;   // for jsonl the line
  std::string where;  // "file" or "file:line"
  bool is_json = false;
};

// What a document holds: its text, or a prompt and the completion that is to be learned.
struct Document {
  std::string prompt;  // not counted in the loss
  std::string text;
  bool has_prompt = false;
};

// Reads "text", or "prompt" and "completion", of a jsonl record. Throws Error(Data).
Document parse_document(RawDocument raw);

// The documents of one file in order: .jsonl or .ndjson (a record per line), anything else is text;
// each may end in .zst. Blank lines are no documents. Throws Error(Data).
class DocumentReader {
 public:
  DocumentReader(Storage& storage, const std::string& path, TextSplit split);

  std::optional<RawDocument> next();

 private:
  bool fill();  // more text into the buffer; false at the end
  std::optional<RawDocument> next_file();
  std::optional<RawDocument> next_line();

  std::string path_;
  bool is_json_;
  TextSplit split_;
  std::unique_ptr<FileReader> file_;
  std::optional<ZstdStream> zstd_;
  size_t file_at_ = 0;  // of a file that is not compressed
  std::string buffer_;
  size_t buffer_at_ = 0;
  int64_t line_ = 0;
  bool is_done_ = false;
};

}  // namespace sextant
