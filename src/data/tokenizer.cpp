#include "data/tokenizer.h"

#include <array>

#include "base/error.h"
#include "base/parse.h"
#include "data/bpe_tokenizer.h"
#include "data/checksum.h"
#include "data/text_ends.h"

namespace sextant {

void BpeFree::operator()(const BpeTokenizer* tokenizer) const {
  delete tokenizer;
}

void BpeFree::operator()(BpeWorkspace* workspace) const {
  delete workspace;
}

Tokenizer::Tokenizer(std::string name, TokenizerFiles files, std::variant<Bytes, Bpe> kind)
    : name_(std::move(name)),
      files_(std::move(files)),
      hash_(files_.empty() ? 0 : checksum(files_.json())),
      kind_(std::move(kind)) {
  if (const Bpe* bpe = std::get_if<Bpe>(&kind_))
    ends_ = text_ends(**bpe, files_, name_);
  else
    ends_.eos = {0};
}

Tokenizer Tokenizer::bytes() {
  return Tokenizer("bytes", {}, Bytes{});
}

Tokenizer Tokenizer::from_json(std::string_view text, const std::string& name) {
  return from_files({{{std::string(kTokenizerJson), std::string(text)}}}, name);
}

Tokenizer Tokenizer::from_files(TokenizerFiles files, const std::string& name) {
  Bpe bpe(new BpeTokenizer(parse_tokenizer_json(files.json(), name)));
  return Tokenizer(name, std::move(files), std::move(bpe));
}

Tokenizer Tokenizer::open(Storage& storage, const std::string& setting) {
  if (setting.empty() || setting == "bytes") return bytes();
  SXT_CHECK(storage.exists(setting), Data, "tokenizer ", setting,
            " does not exist; give 'bytes' or the path of a tokenizer.json");
  const std::string path =
      storage.is_directory(setting) ? join_path(setting, kTokenizerJson) : setting;
  return from_files(read_tokenizer_files(storage, path), path);
}

int64_t Tokenizer::vocab() const {
  const Bpe* bpe = std::get_if<Bpe>(&kind_);
  return bpe ? static_cast<int64_t>((*bpe)->text_of_id.size()) : 256;
}

std::optional<int32_t> Tokenizer::eod() const {
  const Bpe* bpe = std::get_if<Bpe>(&kind_);
  return bpe ? (*bpe)->eod : 0;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, Specials specials) const {
  std::vector<int32_t> ids;
  Encoder(*this).encode(ids, text, specials);
  return ids;
}

std::string_view Tokenizer::bytes_of(int32_t id) const {
  static constexpr std::array<char, 256> kBytes = [] {
    std::array<char, 256> all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i);
    return all;
  }();
  if (id < 0 || id >= vocab()) return "";
  const Bpe* bpe = std::get_if<Bpe>(&kind_);
  const auto at = static_cast<size_t>(id);
  return bpe ? std::string_view((*bpe)->text_of_id[at]) : std::string_view(&kBytes[at], 1);
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += bytes_of(id);
  const Bpe* bpe = std::get_if<Bpe>(&kind_);
  if (bpe && (*bpe)->decodes_without_first_space && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

Encoder::Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  if (std::holds_alternative<Tokenizer::Bpe>(tokenizer.kind_)) work_.reset(new BpeWorkspace);
}

void Encoder::encode(std::vector<int32_t>& ids, std::string_view text, Specials specials) {
  const auto* bpe = std::get_if<Tokenizer::Bpe>(&tokenizer_.kind_);
  if (!bpe) {
    ids.reserve(ids.size() + text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return;
  }
  SXT_CHECK(is_utf8(text), Data, "text is not UTF-8, which the tokenizer ", tokenizer_.name(),
            " needs; convert it or use the tokenizer 'bytes'");
  const BpeTokenizer& tokenizer = **bpe;
  if (specials == Specials::With)
    ids.insert(ids.end(), tokenizer.prefix.begin(), tokenizer.prefix.end());
  sextant::encode(ids, tokenizer, text, *work_);
  if (specials == Specials::With)
    ids.insert(ids.end(), tokenizer.suffix.begin(), tokenizer.suffix.end());
}

}  // namespace sextant
