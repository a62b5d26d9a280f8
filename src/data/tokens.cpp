#include "data/tokens.h"

#include <algorithm>

#include "base/error.h"
#include "data/checksum.h"
#include "data/little_endian.h"

namespace sextant {
namespace {

constexpr int64_t kScan = 1 << 16;  // tokens per read when searching for documents

// "x.bin", "x.idx" or "x" -> "x".
std::string megatron_stem(const std::string& path) {
  const bool has_ending = path.ends_with(".bin") || path.ends_with(".idx");
  return has_ending ? path.substr(0, path.size() - 4) : path;
}

bool is_megatron_pair(Storage& storage, const std::string& path) {
  const std::string index = megatron_stem(path) + ".idx";
  return storage.exists(index) && storage.exists(megatron_stem(path) + ".bin") &&
         is_megatron_index(storage.open(index)->bytes());
}

TokenLayout parse(std::span<const std::byte> bytes, std::span<const std::byte> index,
                  const std::string& name, TokenFormat format) {
  switch (format) {
    case TokenFormat::Sextant:
      return parse_own_tokens(bytes, name);
    case TokenFormat::LlmC:
      return parse_llmc_tokens(bytes, name);
    case TokenFormat::NanoGpt:
      return parse_nanogpt_tokens(bytes, name);
    case TokenFormat::Megatron:
      return parse_megatron_tokens(bytes, index, name);
    case TokenFormat::Auto:
      break;
  }
  const std::optional<TokenFormat> found = detect_token_format(bytes);
  SXT_CHECK(
      found, Data, name,
      " is not a token file that can be recognised (Sextant, llm.c, Megatron); text becomes one "
      "by sextant data tokenize, a headerless one of nanoGPT needs data.format = nanogpt (in data "
      "inspect --format)");
  return parse(bytes, index, name, *found);
}

}  // namespace

void TokenBuffer::append(std::span<const int32_t> document,
                         std::span<const uint8_t> document_mask) {
  if (document.empty()) return;
  if (!document_mask.empty() && mask.empty()) mask.assign(tokens.size(), 1);
  starts.push_back(static_cast<int64_t>(tokens.size()));
  tokens.insert(tokens.end(), document.begin(), document.end());
  if (!document_mask.empty()) {
    mask.insert(mask.end(), document_mask.begin(), document_mask.end());
  } else if (!mask.empty()) {
    mask.resize(tokens.size(), 1);
  }
}

TokenSource::TokenSource(TokenLayout layout) : layout_(std::move(layout)) {
  checked_ = std::make_unique<std::atomic<bool>[]>(layout_.checksums.size() / 8);
}

TokenSource TokenSource::open(Storage& storage, const std::string& path, TokenFormat format) {
  std::string data_path = path;
  std::unique_ptr<FileReader> index;
  if (format == TokenFormat::Auto && is_megatron_pair(storage, path))
    format = TokenFormat::Megatron;
  if (format == TokenFormat::Megatron) {
    data_path = megatron_stem(path) + ".bin";
    index = storage.open(megatron_stem(path) + ".idx");
  }
  std::unique_ptr<FileReader> file = storage.open(data_path);
  TokenSource source(parse(file->bytes(), index ? index->bytes() : std::span<const std::byte>(),
                           data_path, format));
  source.file_ = std::move(file);
  source.index_file_ = std::move(index);
  return source;
}

TokenSource TokenSource::from_bytes(std::span<const std::byte> bytes,
                                    std::span<const std::byte> index, const std::string& name,
                                    TokenFormat format) {
  return TokenSource(parse(bytes, index, name, format));
}

TokenSource TokenSource::from_memory(TokenBuffer buffer, const std::string& name, int64_t vocab) {
  TokenLayout layout;
  layout.name = name;
  layout.type = TokenType::I32;
  layout.tokens = layout.chunk_tokens = static_cast<int64_t>(buffer.tokens.size());
  layout.has_mask = !buffer.mask.empty();
  layout.vocab = vocab;
  layout.own_starts(std::move(buffer.starts));
  const std::span<const std::byte> tokens = std::as_bytes(std::span(buffer.tokens));
  std::vector<std::byte> memory(tokens.begin(), tokens.end());
  for (size_t i = 0; i < buffer.mask.size(); ++i) {
    if (i % 8 == 0) memory.push_back(std::byte{0});
    if (buffer.mask[i] != 0) memory.back() |= std::byte{1} << (i % 8);
  }
  layout.data = memory;
  TokenSource source(std::move(layout));
  source.memory_ = std::move(memory);
  return source;
}

int64_t TokenSource::chunk_count(int64_t chunk) const {
  return std::min(layout_.chunk_tokens, layout_.tokens - chunk * layout_.chunk_tokens);
}

std::span<const std::byte> TokenSource::chunk_bytes(int64_t chunk) const {
  const auto size = [&](int64_t tokens) {
    return static_cast<size_t>(tokens * width() + (layout_.has_mask ? (tokens + 7) / 8 : 0));
  };
  return layout_.data.subspan(static_cast<size_t>(chunk) * size(layout_.chunk_tokens),
                              size(chunk_count(chunk)));
}

void TokenSource::check_chunk(int64_t chunk) const {
  if (!has_checksums() || checked_[static_cast<size_t>(chunk)].load(std::memory_order_relaxed))
    return;
  SXT_CHECK(load<uint64_t>(layout_.checksums, 8 * chunk) == checksum(chunk_bytes(chunk)), Data,
            name(), ": checksum of chunk ", chunk, " (from token ", chunk * layout_.chunk_tokens,
            ") does not match");
  checked_[static_cast<size_t>(chunk)].store(true, std::memory_order_relaxed);
}

template <class Element>
void TokenSource::read_as(std::span<int32_t> out, int64_t begin, int64_t limit) const {
  const auto count = static_cast<int64_t>(out.size());
  for (int64_t done = 0; done < count;) {
    const int64_t chunk = (begin + done) / layout_.chunk_tokens;
    const int64_t from = (begin + done) % layout_.chunk_tokens;
    const int64_t here = std::min(count - done, chunk_count(chunk) - from);
    check_chunk(chunk);
    const std::span<const std::byte> bytes = chunk_bytes(chunk);
    for (int64_t i = 0; i < here; ++i) {
      const auto id =
          static_cast<int64_t>(load<Element>(bytes, (from + i) * int64_t{sizeof(Element)}));
      SXT_CHECK(id >= 0 && id < limit, Data, name(), ": token ", begin + done + i, " has id ", id,
                ", the vocabulary has ", limit);
      out[static_cast<size_t>(done + i)] = static_cast<int32_t>(id);
    }
    done += here;
  }
}

void TokenSource::read(std::span<int32_t> out, int64_t begin, int64_t limit) const {
  SXT_CHECK(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= tokens(), Internal, name(),
            ": tokens ", begin, " to ", begin + static_cast<int64_t>(out.size()), " of ", tokens());
  limit = std::min<int64_t>(limit, INT32_MAX);
  switch (layout_.type) {
    case TokenType::U8:
      return read_as<uint8_t>(out, begin, limit);
    case TokenType::I8:
      return read_as<int8_t>(out, begin, limit);
    case TokenType::I16:
      return read_as<int16_t>(out, begin, limit);
    case TokenType::U16:
      return read_as<uint16_t>(out, begin, limit);
    case TokenType::I32:
      return read_as<int32_t>(out, begin, limit);
    case TokenType::U32:
      return read_as<uint32_t>(out, begin, limit);
    case TokenType::I64:
      return read_as<int64_t>(out, begin, limit);
  }
}

void TokenSource::read_mask(std::span<uint8_t> out, int64_t begin) const {
  SXT_CHECK(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= tokens(), Internal, name(),
            ": mask of tokens beyond the end");
  if (!has_loss_mask()) {
    std::fill(out.begin(), out.end(), uint8_t{1});
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t token = begin + static_cast<int64_t>(i);
    const int64_t chunk = token / layout_.chunk_tokens, at = token % layout_.chunk_tokens;
    check_chunk(chunk);
    const std::span<const std::byte> bits =
        chunk_bytes(chunk).subspan(static_cast<size_t>(chunk_count(chunk) * width()));
    out[i] = static_cast<uint8_t>(bits[static_cast<size_t>(at / 8)] >> (at % 8)) & 1;
  }
}

void TokenSource::document_starts(std::vector<int64_t>& out, std::vector<int32_t>& scratch,
                                  int64_t begin, int64_t end) const {
  if (!layout_.separator) {
    const auto count = static_cast<int64_t>(layout_.starts.size() / 8);
    int64_t low = 0, high = count;  // the first start at or after `begin`
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (load<int64_t>(layout_.starts, 8 * middle) < begin) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    for (; low < count; ++low) {
      const auto start = load<int64_t>(layout_.starts, 8 * low);
      if (start >= end) return;
      out.push_back(start);
    }
    return;
  }
  // A document starts at its separator, or after it; the first token always starts one.
  const int64_t shift = layout_.separator->place == Separator::Place::Begins ? 0 : 1;
  if (begin == 0 && end > 0) out.push_back(0);
  for (int64_t at = std::max(begin, int64_t{1}); at < end; at += kScan) {
    scratch.resize(static_cast<size_t>(std::min(kScan, end - at)));
    read(scratch, at - shift, INT32_MAX);
    for (size_t i = 0; i < scratch.size(); ++i) {
      if (scratch[i] == layout_.separator->id) out.push_back(at + static_cast<int64_t>(i));
    }
  }
}

int64_t TokenSource::count_documents() const {
  if (!layout_.separator) return static_cast<int64_t>(layout_.starts.size() / 8);
  std::vector<int64_t> starts;
  std::vector<int32_t> scratch;
  int64_t count = 0;
  for (int64_t at = 0; at < tokens(); at += kScan) {
    starts.clear();
    document_starts(starts, scratch, at, std::min(at + kScan, tokens()));
    count += static_cast<int64_t>(starts.size());
  }
  return count;
}

}  // namespace sextant
