#include "data/text_ends.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/json_field.h"
#include "formats/hf_tokens.h"
#include "formats/json.h"

namespace sextant {
namespace {

using nlohmann::json;

// A name, or an added token with its content.
std::optional<int32_t> id_of(const BpeTokenizer& tokenizer, const json& config, const char* key) {
  if (!config.is_object()) return std::nullopt;
  const auto found = config.find(key);
  if (found == config.end()) return std::nullopt;
  const json* name = &*found;
  if (name->is_object() && name->contains("content")) name = &(*name)["content"];
  if (!name->is_string() || name->get_ref<const std::string&>().empty()) return std::nullopt;
  const auto at = std::ranges::find(tokenizer.text_of_id, name->get_ref<const std::string&>());
  if (at == tokenizer.text_of_id.end()) return std::nullopt;
  return static_cast<int32_t>(at - tokenizer.text_of_id.begin());
}

}  // namespace

TextEnds text_ends(const BpeTokenizer& tokenizer, const TokenizerFiles& files,
                   const std::string& name) {
  TextEnds ends;
  const HfTokens said = hf_tokens_of(files, name);
  const auto is_id = [](int64_t id) { return id <= kMaxTokenId; };
  if (said.bos && is_id(*said.bos)) ends.bos = static_cast<int32_t>(*said.bos);
  for (const int64_t id : said.eos)
    if (is_id(id)) ends.eos.push_back(static_cast<int32_t>(id));
  if (const TokenizerFiles::File* file = files.find("tokenizer_config.json")) {
    const json config = parse_json_strict(file->content, name + ": tokenizer_config.json");
    if (!ends.bos) ends.bos = id_of(tokenizer, config, "bos_token");
    if (const auto eos = id_of(tokenizer, config, "eos_token"); eos && ends.eos.empty())
      ends.eos.push_back(*eos);
  }
  if (!ends.bos && !tokenizer.prefix.empty()) ends.bos = tokenizer.prefix.front();
  if (tokenizer.eod && std::ranges::find(ends.eos, *tokenizer.eod) == ends.eos.end())
    ends.eos.push_back(*tokenizer.eod);
  return ends;
}

}  // namespace sextant
