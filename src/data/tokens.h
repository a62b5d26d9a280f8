#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/storage.h"
#include "config/config.h"
#include "data/token_layout.h"

namespace sextant {

// Concatenated documents in memory.
struct TokenBuffer {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;    // 1: in the loss; empty: all are
  std::vector<int64_t> starts;  // first token of each document

  // `document_mask`: empty (all count), or one byte per token.
  void append(std::span<const int32_t> document, std::span<const uint8_t> document_mask);
};

// The tokens of a file (memory-mapped, any TokenFormat) or of memory, as one sequence. Reading is
// const and thread-safe. Bad content throws Error(Data), one line that starts with the file's name.
class TokenSource {
 public:
  // Auto detects the format by content; nanoGPT files have no header and need an explicit format. A
  // Megatron pair is given by either file, or by the path without extension.
  static TokenSource open(Storage& storage, const std::string& path, TokenFormat format);
  static TokenSource from_memory(TokenBuffer buffer, const std::string& name, int64_t vocab);
  // Over bytes that outlive the source; `index`: the .idx of a Megatron pair, else empty.
  static TokenSource from_bytes(std::span<const std::byte> bytes, std::span<const std::byte> index,
                                const std::string& name, TokenFormat format);

  const std::string& name() const { return layout_.name; }
  TokenFormat format() const { return layout_.format; }
  int64_t tokens() const { return layout_.tokens; }
  int64_t vocab() const { return layout_.vocab; }  // from the file; 0: unknown
  int width() const { return layout_.width(); }    // bytes per token
  bool has_loss_mask() const { return layout_.has_mask; }
  bool has_checksums() const { return !layout_.checksums.empty(); }
  const std::string& tokenizer() const { return layout_.tokenizer; }  // "" when not recorded
  uint64_t tokenizer_hash() const { return layout_.tokenizer_hash; }  // 0: bytes, or not recorded
  TokenizerFiles tokenizer_files() const {                            // empty when not in the file
    return parse_attached(layout_.attached, name());
  }

  // Reads tokens [begin, begin + out.size()). An id outside [0, limit) is an error that names its
  // position. A chunk's checksum is verified on first access.
  void read(std::span<int32_t> out, int64_t begin, int64_t limit) const;
  // 1 for tokens in the loss, else 0; all 1 without a mask.
  void read_mask(std::span<uint8_t> out, int64_t begin) const;
  // Appends the document starts in [begin, end), ascending. `scratch`: a buffer of the caller, so
  // that repeated calls do not allocate.
  void document_starts(std::vector<int64_t>& out, std::vector<int32_t>& scratch, int64_t begin,
                       int64_t end) const;
  // Reads the whole file for formats without an index.
  int64_t count_documents() const;

 private:
  explicit TokenSource(TokenLayout layout);
  void check_chunk(int64_t chunk) const;
  template <class Element>
  void read_as(std::span<int32_t> out, int64_t begin, int64_t limit) const;
  std::span<const std::byte> chunk_bytes(int64_t chunk) const;
  int64_t chunk_count(int64_t chunk) const;

  TokenLayout layout_;
  std::unique_ptr<FileReader> file_, index_file_;
  std::vector<std::byte> memory_;
  std::unique_ptr<std::atomic<bool>[]> checked_;  // per chunk
};

}  // namespace sextant
