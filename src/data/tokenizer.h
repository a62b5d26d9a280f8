#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/storage.h"
#include "formats/tokenizer_files.h"

namespace sextant {

struct BpeTokenizer;
struct BpeWorkspace;
struct BpeFree {
  void operator()(const BpeTokenizer* tokenizer) const;
  void operator()(BpeWorkspace* workspace) const;
};

// Tokens at the ends of a text.
struct TextEnds {
  std::optional<int32_t> bos = {};
  std::vector<int32_t> eos = {};
};

enum class Specials { Without, With };  // With: add the template's tokens around a text

// Text to token ids and back: plain bytes, or the byte-level BPE of a Hugging Face tokenizer.json
// with the same ids as the `tokenizers` library. Immutable, shared by threads.
class Tokenizer {
 public:
  // Ids are bytes, vocabulary 256; byte 0 ends a document.
  static Tokenizer bytes();
  // Throws Error(Data), one line that starts with `name`.
  static Tokenizer from_json(std::string_view text, const std::string& name);
  static Tokenizer from_files(TokenizerFiles files, const std::string& name);
  // "" or "bytes", or the path of a tokenizer.json or of a directory that holds one.
  static Tokenizer open(Storage& storage, const std::string& setting);

  int64_t vocab() const;               // highest id + 1
  std::optional<int32_t> eod() const;  // end-of-document token, if any
  // What its files say: the token that begins a text, and those that end one, eod() among them.
  std::optional<int32_t> bos() const { return ends_.bos; }
  const std::vector<int32_t>& eos() const { return ends_.eos; }
  const std::string& name() const { return name_; }
  uint64_t hash() const { return hash_; }  // of tokenizer.json; identifies the tokenizer; 0: bytes
  const TokenizerFiles& files() const { return files_; }  // empty: bytes

  // Throws Error(Data) for text that is not UTF-8 (the byte tokenizer takes anything).
  std::vector<int32_t> encode(std::string_view text, Specials specials = Specials::Without) const;
  // The text of the ids; unknown ids give nothing. Some tokenizers begin every text with a space,
  // which is removed again.
  std::string decode(std::span<const int32_t> ids) const;
  // The bytes of an id inside a text; "" if unknown.
  std::string_view bytes_of(int32_t id) const;

 private:
  friend class Encoder;
  struct Bytes {};
  using Bpe = std::unique_ptr<const BpeTokenizer, BpeFree>;
  Tokenizer(std::string name, TokenizerFiles files, std::variant<Bytes, Bpe> kind);

  std::string name_;
  TokenizerFiles files_;
  uint64_t hash_;
  TextEnds ends_;
  std::variant<Bytes, Bpe> kind_;
};

// Encoder of one thread; caches words, so reuse it for many texts. The tokenizer must outlive it.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer);

  // Appends the ids of `text`.
  void encode(std::vector<int32_t>& ids, std::string_view text,
              Specials specials = Specials::Without);

 private:
  const Tokenizer& tokenizer_;
  std::unique_ptr<BpeWorkspace, BpeFree> work_;
};

}  // namespace sextant
