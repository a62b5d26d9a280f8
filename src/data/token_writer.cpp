#include "data/token_writer.h"

#include <algorithm>

#include "base/error.h"
#include "data/checksum.h"
#include "data/little_endian.h"
#include "data/token_layout.h"

namespace sextant {
namespace {

void store_magic(std::vector<std::byte>& out, const char* magic) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<std::byte>(magic[i]));
}

// Pads a header or footer to `size` bytes less its checksum, and appends that.
void seal(std::vector<std::byte>& out, int64_t size) {
  out.resize(static_cast<size_t>(size) - 8);
  store(out, checksum(out));
}

}  // namespace

TokenWriter::TokenWriter(Storage& storage, const std::string& path, const Tokenizer& tokenizer,
                         LossMask mask)
    : storage_(storage),
      path_(path),
      temporary_(path + ".tmp"),
      vocab_(tokenizer.vocab()),
      width_(vocab_ <= 65536 ? 2 : 4),
      mask_(mask),
      files_(attached_bytes(tokenizer.files())) {
  storage_.make_directories(parent_path(path));
  file_ = storage_.create(temporary_);
  write_header(tokenizer);
}

TokenWriter::~TokenWriter() {
  if (!file_) return;
  file_.reset();
  try {
    storage_.remove_all(temporary_);
  } catch (const Error&) {
    // Nothing more to do here; the original error has been reported.
  }
}

void TokenWriter::write_header(const Tokenizer& tokenizer) {
  std::vector<std::byte> header;
  store_magic(header, kTokensMagic);
  store(header, files_.empty() ? kTokensVersion : kTokensWithFiles);
  store(header, static_cast<uint32_t>(width_));
  store(header, mask_ == LossMask::PerToken ? kTokensHasMask : uint32_t{0});
  store(header, static_cast<uint32_t>(kTokensChunk));
  store(header, static_cast<uint64_t>(vocab_));
  store(header, tokenizer.hash());
  // Keeps the end of a long path, which is more specific.
  const std::string& name = tokenizer.name();
  const size_t cut = name.size() - std::min(name.size(), static_cast<size_t>(kTokensName - 1));
  for (const char c : name.substr(cut)) header.push_back(static_cast<std::byte>(c));
  seal(header, kTokensHeader);
  file_->write(header);
}

void TokenWriter::append(std::span<const int32_t> document, std::span<const uint8_t> mask) {
  SXT_CHECK(mask.empty() || mask.size() == document.size(), Internal,
            "token writer: ", document.size(), " tokens with a mask of ", mask.size());
  SXT_CHECK(mask.empty() || mask_ == LossMask::PerToken, Internal,
            "token writer: a mask for a file without one");
  if (document.empty()) return;
  starts_.push_back(tokens_);
  for (size_t i = 0; i < document.size(); ++i) {
    SXT_CHECK(document[i] >= 0 && document[i] < vocab_, Data, path_, ": token ", tokens_,
              " has id ", document[i], ", the vocabulary has ", vocab_);
    if (width_ == 2) {
      store(chunk_, static_cast<uint16_t>(document[i]));
    } else {
      store(chunk_, static_cast<uint32_t>(document[i]));
    }
    if (mask_ == LossMask::PerToken) {
      if (chunk_tokens_ % 8 == 0) chunk_mask_.push_back(std::byte{0});
      if (mask.empty() || mask[i] != 0) chunk_mask_.back() |= std::byte{1} << (chunk_tokens_ % 8);
    }
    ++tokens_;
    if (++chunk_tokens_ == kTokensChunk) write_chunk();
  }
}

void TokenWriter::write_chunk() {
  chunk_.insert(chunk_.end(), chunk_mask_.begin(), chunk_mask_.end());
  checksums_.push_back(checksum(chunk_));
  file_->write(chunk_);
  chunk_.clear();
  chunk_mask_.clear();
  chunk_tokens_ = 0;
}

void TokenWriter::finish() {
  if (chunk_tokens_ > 0) write_chunk();
  std::vector<std::byte> index;
  for (const int64_t start : starts_) store(index, start);
  for (const uint64_t sum : checksums_) store(index, sum);
  file_->write(index);
  file_->write(files_);
  std::vector<std::byte> footer;
  store_magic(footer, kTokensEndMagic);
  store(footer, static_cast<uint64_t>(tokens_));
  store(footer, static_cast<uint64_t>(starts_.size()));
  store(footer, static_cast<uint64_t>(checksums_.size()));
  store(footer, checksum(index));
  if (!files_.empty()) {
    store(footer, static_cast<uint64_t>(files_.size()));
    store(footer, checksum(files_));
  }
  seal(footer, kTokensFooter);
  file_->write(footer);
  file_->sync();
  storage_.rename(temporary_, path_);
  file_.reset();  // from here on nothing is left to remove
  storage_.sync_directory(parent_path(path_));
}

}  // namespace sextant
