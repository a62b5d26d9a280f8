#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/bpe_tokenizer.h"
#include "data/json_field.h"

namespace sextant {

// The steps of a tokenizer.json around its model: normalizer, Metaspace, decoder. `root` is the
// whole file; what is not supported is Error(Data) by name.
std::vector<NormalizeStep> read_normalizer(const JsonField& root);
std::optional<Metaspace> read_metaspace(const JsonField& root);  // nullopt: another pre_tokenizer

// How ids become text.
struct Decoder {
  Alphabet alphabet = Alphabet::Bytes;
  std::string replaced, replacement;  // in every token; "": nothing
  bool has_byte_tokens = false;       // <0x41> is the byte 0x41
  bool strips_first_space = false;    // of a text
};
Decoder read_decoder(const JsonField& root, Alphabet alphabet);
std::string text_of_token(const std::string& token, const Decoder& decoder);

}  // namespace sextant
