#include "data/tokenizer_steps.h"

#include "base/error.h"
#include "data/byte_alphabet.h"
#include "formats/json.h"

namespace sextant {
namespace {

NormalizeStep read_step(const JsonField& field) {
  const std::string type = field.type();
  if (type == "NFC") return {NormalizeStep::Kind::Nfc, "", ""};
  if (type == "Prepend") return {NormalizeStep::Kind::Prepend, "", field.string("prepend")};
  if (type != "Replace") field.refuse(type, "NFC, Prepend and Replace");
  const JsonField pattern = field.object("pattern");
  SXT_CHECK(pattern.has("String"), Data, pattern.where(), " must have a String");
  const std::string from = pattern.string("String");
  SXT_CHECK(!from.empty(), Data, pattern.where(), ".String is empty");
  return {NormalizeStep::Kind::Replace, from, field.string("content")};
}

// "<0x41>" -> 0x41.
std::optional<unsigned char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return {};
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (c < 'A' || c > 'F')) return {};
    value = 16 * value + (is_digit ? c - '0' : c - 'A' + 10);
  }
  return static_cast<unsigned char>(value);
}

void add_part(Decoder& decoder, const JsonField& part) {
  const std::string type = part.type();
  if (type == "ByteFallback") {
    decoder.has_byte_tokens = true;
  } else if (type == "Replace") {
    const JsonField pattern = part.object("pattern");
    SXT_CHECK(pattern.has("String") && decoder.replaced.empty(), Data, part.where(),
              " must be the only Replace, of a String");
    decoder.replaced = pattern.string("String");
    decoder.replacement = part.string("content");
  } else if (type == "Strip") {
    const bool is_one_space =
        part.string("content") == " " && part.id("start") <= 1 && part.id("stop") == 0;
    SXT_CHECK(is_one_space, Data, part.where(), " must strip at most one space at the start");
    decoder.strips_first_space = part.id("start") == 1;
  } else if (type != "Fuse") {
    part.refuse(type, "Replace, ByteFallback, Fuse and Strip");
  }
}

// Old files have add_prefix_space instead.
std::string prepend_scheme(const JsonField& field) {
  if (field.has("prepend_scheme")) return field.string("prepend_scheme");
  return field.flag("add_prefix_space", true) ? "always" : "never";
}

}  // namespace

std::vector<NormalizeStep> read_normalizer(const JsonField& root) {
  if (!root.has("normalizer")) return {};
  const JsonField field = root.object("normalizer");
  if (field.type() != "Sequence") return {read_step(field)};
  std::vector<NormalizeStep> steps;
  for (const JsonField& part : field.array("normalizers").items()) steps.push_back(read_step(part));
  return steps;
}

std::optional<Metaspace> read_metaspace(const JsonField& root) {
  if (!root.has("pre_tokenizer")) return {};
  const JsonField field = root.object("pre_tokenizer");
  if (field.type() != "Metaspace") return {};
  Metaspace out;
  out.replacement = field.string("replacement");
  SXT_CHECK(!out.replacement.empty(), Data, field.where(), ".replacement is empty");
  const std::string scheme = prepend_scheme(field);
  if (scheme == "first")
    out.prepend = Metaspace::Prepend::First;
  else if (scheme == "never")
    out.prepend = Metaspace::Prepend::Never;
  else
    SXT_CHECK(scheme == "always", Data, field.where(), ".prepend_scheme is ", shown(scheme),
              ", must be always, first or never");
  out.splits = field.flag("split", true);
  return out;
}

Decoder read_decoder(const JsonField& root, Alphabet alphabet) {
  Decoder out;
  out.alphabet = alphabet;
  if (alphabet == Alphabet::Bytes) {
    if (!root.has("decoder")) return out;
    const JsonField decoder = root.object("decoder");
    if (decoder.type() != "ByteLevel") decoder.refuse(decoder.type(), "ByteLevel");
    return out;
  }
  const JsonField decoder = root.object("decoder");
  const std::string type = decoder.type();
  if (type == "Metaspace") {
    out.replaced = decoder.string("replacement");
    out.replacement = " ";
    out.strips_first_space = prepend_scheme(decoder) != "never";
  } else if (type == "Sequence") {
    for (const JsonField& part : decoder.array("decoders").items()) add_part(out, part);
  } else {
    decoder.refuse(type, "Sequence and Metaspace");
  }
  return out;
}

std::string text_of_token(const std::string& token, const Decoder& decoder) {
  if (decoder.alphabet == Alphabet::Bytes) return bytes_of_token(token).value_or(token);
  if (decoder.has_byte_tokens)
    if (const std::optional<unsigned char> byte = byte_of(token))
      return std::string(1, static_cast<char>(*byte));
  return decoder.replaced.empty() ? token
                                  : replace_all(token, decoder.replaced, decoder.replacement);
}

}  // namespace sextant
