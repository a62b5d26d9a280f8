#include "data/token_layout.h"

#include "base/error.h"
#include "data/checksum.h"
#include "data/little_endian.h"

namespace sextant {
namespace {

using Bytes = std::span<const std::byte>;

constexpr int32_t kLlmcGpt2 = 20240520, kLlmcLlama3 = 20240801;
constexpr int64_t kLlmcHeader = 256 * 4;
constexpr char kMegatronMagic[] = "MMIDIDX\0";  // with the final NUL: 9 bytes
constexpr int32_t kGpt2End = 50256, kLlama3Begin = 128000;

int64_t size_of(Bytes bytes) {
  return static_cast<int64_t>(bytes.size());
}

bool begins_with(Bytes bytes, const char* magic, size_t size) {
  return bytes.size() >= size && std::memcmp(bytes.data(), magic, size) == 0;
}

Bytes part(Bytes bytes, int64_t at, int64_t size) {
  return bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(size));
}

// Starts must ascend from 0 and be smaller than the number of tokens.
void check_starts(const TokenLayout& layout) {
  const int64_t count = size_of(layout.starts) / 8;
  SXT_CHECK((count > 0) == (layout.tokens > 0), Data, layout.name, ": ", layout.tokens,
            " tokens in ", count, " documents");
  int64_t before = -1;
  for (int64_t i = 0; i < count; ++i) {
    const auto start = load<int64_t>(layout.starts, 8 * i);
    SXT_CHECK(start > before && start < layout.tokens && (i > 0 || start == 0), Data, layout.name,
              ": document ", i, " begins at token ", start, ", must lie behind ", before,
              " and below ", layout.tokens);
    before = start;
  }
}

struct OwnHeader {
  uint32_t version, width, flags, chunk_tokens;
};

OwnHeader read_own_header(TokenLayout& layout, Bytes bytes) {
  const std::string& name = layout.name;
  SXT_CHECK(size_of(bytes) >= kTokensHeader + kTokensFooter, Data, name, ": token file is cut, ",
            bytes.size(), " bytes");
  SXT_CHECK(begins_with(bytes, kTokensMagic, 8), Data, name, " is not a Sextant token file");
  const auto version = load<uint32_t>(bytes, 8);
  SXT_CHECK(version == kTokensVersion || version == kTokensWithFiles, Data, name,
            ": token file version ", version, ", must be ", kTokensVersion, " or ",
            kTokensWithFiles);
  SXT_CHECK(load<uint64_t>(bytes, kTokensHeader - 8) == checksum(part(bytes, 0, kTokensHeader - 8)),
            Data, name, ": checksum of the header does not match");
  const OwnHeader header{version, load<uint32_t>(bytes, 12), load<uint32_t>(bytes, 16),
                         load<uint32_t>(bytes, 20)};
  SXT_CHECK(header.width == 2 || header.width == 4, Data, name, ": tokens of ", header.width,
            " bytes, must be 2 or 4");
  SXT_CHECK((header.flags & ~kTokensHasMask) == 0, Data, name, ": unknown flags ", header.flags);
  SXT_CHECK(header.chunk_tokens > 0 && header.chunk_tokens % 8 == 0, Data, name, ": chunks of ",
            header.chunk_tokens, " tokens, must be a multiple of 8");
  const auto vocab = load<uint64_t>(bytes, 24);
  SXT_CHECK(vocab > 0 && vocab <= INT32_MAX, Data, name, ": vocabulary ", vocab,
            ", must be from 1 to ", INT32_MAX);
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + 40;
  layout.tokenizer.assign(text, strnlen(text, kTokensName));
  layout.vocab = static_cast<int64_t>(vocab);
  layout.tokenizer_hash = load<uint64_t>(bytes, 32);
  layout.type = header.width == 2 ? TokenType::U16 : TokenType::U32;
  layout.chunk_tokens = header.chunk_tokens;
  layout.has_mask = (header.flags & kTokensHasMask) != 0;
  return header;
}

// Bytes of the chunks of `tokens` tokens, with masks.
int64_t chunks_size(const TokenLayout& layout, int64_t tokens) {
  return tokens * layout.width() + (layout.has_mask ? (tokens + 7) / 8 : 0);
}

}  // namespace

int TokenLayout::width() const {
  switch (type) {
    case TokenType::U8:
    case TokenType::I8:
      return 1;
    case TokenType::I16:
    case TokenType::U16:
      return 2;
    case TokenType::I32:
    case TokenType::U32:
      return 4;
    case TokenType::I64:
      return 8;
  }
  SXT_FAIL(Internal, "unknown token type");
}

void TokenLayout::own_starts(std::vector<int64_t> values) {
  owned_starts = std::move(values);
  starts = std::as_bytes(std::span(owned_starts));
}

TokenLayout parse_own_tokens(Bytes bytes, const std::string& name) {
  TokenLayout layout;
  layout.name = name;
  layout.format = TokenFormat::Sextant;
  const OwnHeader header = read_own_header(layout, bytes);
  const int64_t body = size_of(bytes) - kTokensHeader - kTokensFooter;
  const Bytes footer = part(bytes, size_of(bytes) - kTokensFooter, kTokensFooter);
  SXT_CHECK(begins_with(footer, kTokensEndMagic, 8), Data, name,
            ": token file is cut, its end is missing");
  SXT_CHECK(
      load<uint64_t>(footer, kTokensFooter - 8) == checksum(part(footer, 0, kTokensFooter - 8)),
      Data, name, ": checksum of the footer does not match");
  const auto tokens = load<uint64_t>(footer, 8), documents = load<uint64_t>(footer, 16),
             chunks = load<uint64_t>(footer, 24);
  const uint64_t files = header.version == kTokensWithFiles ? load<uint64_t>(footer, 40) : 0;
  const auto limit = static_cast<uint64_t>(body);
  SXT_CHECK(tokens <= limit && documents <= limit / 8 && chunks <= limit / 8 && files <= limit,
            Data, name, ": footer has ", tokens, " tokens, ", documents, " documents, ", chunks,
            " chunks, ", files, " bytes of files, more than the file can hold");
  layout.tokens = static_cast<int64_t>(tokens);
  const int64_t data = chunks_size(layout, layout.tokens);
  const auto index = static_cast<int64_t>(8 * (documents + chunks));
  SXT_CHECK(static_cast<int64_t>(chunks) ==
                    (layout.tokens + layout.chunk_tokens - 1) / layout.chunk_tokens &&
                data + index + static_cast<int64_t>(files) == body,
            Data, name, ": file has ", bytes.size(), " bytes, its footer asks for ",
            kTokensHeader + data + index + static_cast<int64_t>(files) + kTokensFooter);
  SXT_CHECK(load<uint64_t>(footer, 32) == checksum(part(bytes, kTokensHeader + data, index)), Data,
            name, ": checksum of the index does not match");
  layout.attached = part(bytes, kTokensHeader + data + index, static_cast<int64_t>(files));
  SXT_CHECK(files == 0 || load<uint64_t>(footer, 48) == checksum(layout.attached), Data, name,
            ": checksum of the tokenizer's files does not match");
  layout.data = part(bytes, kTokensHeader, data);
  layout.starts = part(bytes, kTokensHeader + data, static_cast<int64_t>(8 * documents));
  layout.checksums = part(bytes, kTokensHeader + data + static_cast<int64_t>(8 * documents),
                          static_cast<int64_t>(8 * chunks));
  check_starts(layout);
  return layout;
}

TokenLayout parse_llmc_tokens(Bytes bytes, const std::string& name) {
  SXT_CHECK(size_of(bytes) >= kLlmcHeader, Data, name, ": llm.c token file is cut, ", bytes.size(),
            " bytes, the header has ", kLlmcHeader);
  const auto magic = load<int32_t>(bytes, 0), version = load<int32_t>(bytes, 4),
             count = load<int32_t>(bytes, 8);
  SXT_CHECK(magic == kLlmcGpt2 || magic == kLlmcLlama3, Data, name,
            " is not an llm.c token file, its magic is ", magic);
  const bool is_gpt2 = magic == kLlmcGpt2;
  SXT_CHECK(version == (is_gpt2 ? 1 : 7), Data, name, ": llm.c token file version ", version,
            ", must be ", is_gpt2 ? 1 : 7);
  TokenLayout layout;
  layout.name = name;
  layout.format = TokenFormat::LlmC;
  layout.type = is_gpt2 ? TokenType::U16 : TokenType::U32;
  layout.data = bytes.subspan(kLlmcHeader);
  SXT_CHECK(count >= 0 && int64_t{count} * layout.width() == size_of(layout.data), Data, name,
            ": header has ", count, " tokens of ", layout.width(), " bytes, ", layout.data.size(),
            " bytes follow it");
  layout.tokens = layout.chunk_tokens = count;
  layout.separator = Separator{is_gpt2 ? kGpt2End : kLlama3Begin, Separator::Place::Begins};
  return layout;
}

TokenLayout parse_nanogpt_tokens(Bytes bytes, const std::string& name) {
  SXT_CHECK(bytes.size() % 2 == 0, Data, name, ": ", bytes.size(),
            " bytes, a nanoGPT file has two for each token");
  TokenLayout layout;
  layout.name = name;
  layout.format = TokenFormat::NanoGpt;
  layout.type = TokenType::U16;
  layout.data = bytes;
  layout.tokens = layout.chunk_tokens = size_of(bytes) / 2;
  layout.separator = Separator{kGpt2End, Separator::Place::Ends};
  return layout;
}

TokenLayout parse_megatron_tokens(Bytes bytes, Bytes index, const std::string& name) {
  constexpr int64_t kHeader = 9 + 8 + 1 + 8 + 8;
  SXT_CHECK(is_megatron_index(index) && size_of(index) >= kHeader, Data, name,
            ": no Megatron index, or one that is cut");
  const auto version = load<uint64_t>(index, 9);
  SXT_CHECK(version == 1, Data, name, ": Megatron index version ", version, ", must be 1");
  constexpr std::optional<TokenType> kTypes[] = {
      {}, TokenType::U8, TokenType::I8, TokenType::I16, TokenType::I32, TokenType::I64, {},
      {}, TokenType::U16};
  const auto code = load<uint8_t>(index, 17);
  SXT_CHECK(code < std::size(kTypes) && kTypes[code], Data, name, ": Megatron type code ",
            int{code}, " is not one of tokens (1 to 5, 8)");
  const auto sequences = load<uint64_t>(index, 18), boundaries = load<uint64_t>(index, 26);
  const auto room = static_cast<uint64_t>(size_of(index) - kHeader);
  SXT_CHECK(
      sequences <= room / 12 && boundaries <= room / 8 && 12 * sequences + 8 * boundaries <= room,
      Data, name, ": Megatron index is cut, it has ", index.size(), " bytes for ", sequences,
      " sequences and ", boundaries, " document ends");
  TokenLayout layout;
  layout.name = name;
  layout.format = TokenFormat::Megatron;
  layout.type = *kTypes[code];
  layout.data = bytes;
  const auto count = static_cast<int64_t>(sequences);
  std::vector<int64_t> first_token(static_cast<size_t>(count) + 1, 0);
  for (int64_t i = 0; i < count; ++i) {
    const auto length = load<int32_t>(index, kHeader + 4 * i);
    const auto pointer = load<int64_t>(index, kHeader + 4 * count + 8 * i);
    const int64_t here = first_token[static_cast<size_t>(i)];
    SXT_CHECK(length >= 0 && pointer == here * layout.width(), Data, name, ": sequence ", i,
              " has length ", length, " at byte ", pointer, ", must follow the one before it, at ",
              here * layout.width());
    first_token[static_cast<size_t>(i) + 1] = here + length;
  }
  layout.tokens = layout.chunk_tokens = first_token.back();
  SXT_CHECK(layout.tokens * layout.width() == size_of(bytes), Data, name, ": index has ",
            layout.tokens, " tokens of ", layout.width(), " bytes, the .bin has ", bytes.size(),
            " bytes");
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < static_cast<int64_t>(boundaries); ++i) {
    const auto sequence = load<int64_t>(index, kHeader + 12 * count + 8 * i);
    SXT_CHECK(sequence >= 0 && sequence <= count, Data, name, ": document ", i,
              " begins at sequence ", sequence, ", there are ", count);
    const int64_t start = first_token[static_cast<size_t>(sequence)];
    // Empty documents, and the end marker of the list, have no start.
    if (start < layout.tokens && (starts.empty() || start != starts.back()))
      starts.push_back(start);
  }
  if (layout.tokens > 0 && (starts.empty() || starts.front() != 0))
    starts.insert(starts.begin(), 0);
  layout.own_starts(std::move(starts));
  check_starts(layout);
  return layout;
}

bool is_megatron_index(Bytes bytes) {
  return begins_with(bytes, kMegatronMagic, 9);
}

std::optional<TokenFormat> detect_token_format(Bytes bytes) {
  if (begins_with(bytes, kTokensMagic, 8)) return TokenFormat::Sextant;
  if (bytes.size() >= 4) {
    const auto magic = load<int32_t>(bytes, 0);
    if (magic == kLlmcGpt2 || magic == kLlmcLlama3) return TokenFormat::LlmC;
  }
  return std::nullopt;
}

}  // namespace sextant
