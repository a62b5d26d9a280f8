#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/storage.h"
#include "data/tokenizer.h"

namespace sextant {

enum class LossMask { None, PerToken };

// Writes Sextant's token format document by document, with the files of the tokenizer at its end;
// holds one chunk and 8 bytes per document. The
// file appears under its name when finish returns; without finish nothing remains.
class TokenWriter {
 public:
  TokenWriter(Storage& storage, const std::string& path, const Tokenizer& tokenizer, LossMask mask);
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  // `mask`: empty (all tokens count in the loss), or 1 for each token that counts. Empty documents
  // are skipped.
  void append(std::span<const int32_t> document, std::span<const uint8_t> mask);
  void finish();

  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return static_cast<int64_t>(starts_.size()); }

 private:
  void write_header(const Tokenizer& tokenizer);
  void write_chunk();

  Storage& storage_;
  std::string path_, temporary_;
  int64_t vocab_;
  int width_;
  LossMask mask_;
  std::vector<std::byte> files_;  // of the tokenizer
  std::unique_ptr<FileWriter> file_;
  std::vector<std::byte> chunk_, chunk_mask_;
  int64_t chunk_tokens_ = 0;
  int64_t tokens_ = 0;
  std::vector<int64_t> starts_;
  std::vector<uint64_t> checksums_;
};

}  // namespace sextant
