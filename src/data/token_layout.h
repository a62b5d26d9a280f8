#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "formats/tokenizer_files.h"

namespace sextant {

enum class TokenType : uint8_t { U8, I8, I16, I32, I64, U16, U32 };

// A token that delimits documents in formats without an index.
struct Separator {
  int32_t id;
  enum class Place { Begins, Ends } place;
};

// Where the parts of a token file are, for all formats. Tokens are in chunks of equal size (except
// the last), each followed by its mask of one bit per token, if any.
struct TokenLayout {
  std::string name;
  TokenFormat format = TokenFormat::Sextant;
  TokenType type = TokenType::I32;
  std::span<const std::byte> data;  // the chunks
  int64_t tokens = 0;
  int64_t chunk_tokens = 0;
  bool has_mask = false;
  std::span<const std::byte> checksums;  // u64 per chunk; empty: none
  std::span<const std::byte> starts;     // i64 per document, ascending, the first 0
  std::vector<int64_t> owned_starts;     // storage of `starts` when the file does not have them
  std::optional<Separator> separator;    // instead of starts
  int64_t vocab = 0;                     // 0: unknown
  std::string tokenizer;                 // its name, "" when not recorded
  uint64_t tokenizer_hash = 0;           // Tokenizer::hash; 0 for bytes and when not recorded
  std::span<const std::byte> attached;   // TokenizerFiles, see parse_attached; empty: none

  int width() const;
  void own_starts(std::vector<int64_t> values);
};

// Sextant's own format, versions 1 and 2, little-endian:
//   header   magic, version, width, flags, tokens per chunk, vocabulary, tokenizer hash and name,
//            XXH3 of the header
//   chunks   tokens, then one mask bit per token (lowest first) if flagged
//   index    i64 first token of each document; u64 XXH3 of each chunk
//   files    version 2: the tokenizer's files, each u32 and u64 lengths, then name and content
//   footer   magic, tokens, documents, chunks, XXH3 of the index, in version 2 bytes and XXH3 of
//            the files, XXH3 of the footer
// Plain bytes have no files: version 1 is written.
inline constexpr char kTokensMagic[] = "SXTOKENS";
inline constexpr char kTokensEndMagic[] = "SXTOKEND";
inline constexpr uint32_t kTokensVersion = 1, kTokensWithFiles = 2;
inline constexpr int64_t kTokensHeader = 128, kTokensFooter = 64, kTokensName = 72;
inline constexpr int64_t kTokensChunk = 1 << 18;  // tokens; a multiple of 8
inline constexpr uint32_t kTokensHasMask = 1;

// Each parses the structure of its format, not the tokens. Error(Data) for truncated or
// inconsistent files.
TokenLayout parse_own_tokens(std::span<const std::byte> bytes, const std::string& name);
TokenLayout parse_llmc_tokens(std::span<const std::byte> bytes, const std::string& name);
TokenLayout parse_nanogpt_tokens(std::span<const std::byte> bytes, const std::string& name);
TokenLayout parse_megatron_tokens(std::span<const std::byte> bytes,
                                  std::span<const std::byte> index, const std::string& name);

// The files in TokenLayout::attached.
TokenizerFiles parse_attached(std::span<const std::byte> bytes, const std::string& name);
std::vector<std::byte> attached_bytes(const TokenizerFiles& files);

// The format by the first bytes; nullopt if unknown.
std::optional<TokenFormat> detect_token_format(std::span<const std::byte> bytes);
bool is_megatron_index(std::span<const std::byte> bytes);

}  // namespace sextant
