// Input: a byte for the format, then the file; for Megatron four bytes with the length of the
// index, the index, then the .bin. For Sextant's format the checksums may be repaired, so that
// mutations get past them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "data/checksum.h"
#include "data/little_endian.h"
#include "data/tokens.h"

namespace {

using namespace sextant;

void put(std::vector<std::byte>& bytes, size_t at, uint64_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

void repair(std::vector<std::byte>& bytes) {
  if (bytes.size() < kTokensHeader + kTokensFooter) return;
  const std::span<const std::byte> all(bytes);
  const size_t footer = bytes.size() - kTokensFooter;
  const size_t body = footer - kTokensHeader;
  put(bytes, kTokensHeader - 8, checksum(all.first(kTokensHeader - 8)));
  const auto documents = load<uint64_t>(all, static_cast<int64_t>(footer) + 16),
             chunks = load<uint64_t>(all, static_cast<int64_t>(footer) + 24);
  if (documents <= body / 8 && chunks <= body / 8 && 8 * (documents + chunks) <= body) {
    const size_t index = 8 * (documents + chunks);
    put(bytes, footer + 32, checksum(all.subspan(footer - index, index)));
  }
  put(bytes, bytes.size() - 8, checksum(all.subspan(footer, kTokensFooter - 8)));
}

void read_everything(const TokenSource& source) {
  std::vector<int32_t> ids;
  std::vector<uint8_t> mask;
  std::vector<int64_t> starts;
  for (int64_t at = 0; at < source.tokens(); at += 1000) {
    ids.resize(static_cast<size_t>(std::min<int64_t>(1000, source.tokens() - at)));
    mask.resize(ids.size());
    source.read_mask(mask, at);
    source.read(ids, at, 60000);
    source.document_starts(starts, ids, at, at + static_cast<int64_t>(mask.size()));
  }
  if (static_cast<int64_t>(starts.size()) != source.count_documents()) std::abort();
  if (!std::is_sorted(starts.begin(), starts.end())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 5) return 0;
  std::vector<std::byte> bytes(size - 1);
  std::memcpy(bytes.data(), data + 1, size - 1);
  std::vector<std::byte> index;
  constexpr TokenFormat kFormats[] = {TokenFormat::Auto, TokenFormat::LlmC, TokenFormat::NanoGpt,
                                      TokenFormat::Megatron, TokenFormat::Sextant};
  const uint8_t choice = data[0] % 5;
  if (kFormats[choice] == TokenFormat::Sextant) repair(bytes);
  if (kFormats[choice] == TokenFormat::Megatron) {
    const size_t length = std::min<size_t>(load<uint32_t>(bytes, 0), bytes.size() - 4);
    index.assign(bytes.begin() + 4, bytes.begin() + 4 + static_cast<int64_t>(length));
    bytes.erase(bytes.begin(), bytes.begin() + 4 + static_cast<int64_t>(length));
  }
  try {
    read_everything(TokenSource::from_bytes(bytes, index, "tokens", kFormats[choice]));
  } catch (const Error& error) {
    if (error.fault() != Fault::Data) std::abort();
  }
  return 0;
}
