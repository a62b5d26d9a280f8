#include "formats/hf_tokens.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/json.h"

namespace sextant {
using nlohmann::json;
using nlohmann::ordered_json;

HfTokens read_hf_tokens(const HfKeys& keys) {
  const char* const right = "a token id, or for eos_token_id a list of them, is needed";
  const auto id = [&](const char* key, const json& value) {
    // -1 is written by some for "none".
    const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() < kLargestHfSize
                                                 : value.is_number_integer();
    if (!fits) keys.refuse(key, right);
    return value.get<int64_t>();
  };
  HfTokens tokens;
  if (const json* bos = keys.find("bos_token_id"); bos != nullptr && id("bos_token_id", *bos) >= 0)
    tokens.bos = bos->get<int64_t>();
  const json* eos = keys.find("eos_token_id");
  if (eos == nullptr) return tokens;
  for (const json& one : eos->is_array() ? *eos : json::array({*eos}))
    if (id("eos_token_id", one) >= 0) tokens.eos.push_back(one.get<int64_t>());
  return tokens;
}

void write_hf_tokens(ordered_json& out, const HfTokens& tokens) {
  out["bos_token_id"] = tokens.bos ? ordered_json(*tokens.bos) : ordered_json();
  if (tokens.eos.size() == 1)
    out["eos_token_id"] = tokens.eos.front();
  else
    out["eos_token_id"] = tokens.eos.empty() ? ordered_json() : ordered_json(tokens.eos);
}

HfTokens hf_tokens_of(const TokenizerFiles& files, const std::string& name) {
  const TokenizerFiles::File* file = files.find(kGenerationConfig);
  if (file == nullptr) return {};
  const std::string what = concat(name, ": ", kGenerationConfig);
  const json object = parse_json_strict(file->content, what);
  SXT_CHECK(object.is_object(), Data, what, ": a JSON object is needed");
  return read_hf_tokens(HfKeys(object, what + ": "));
}

void add_hf_tokens(TokenizerFiles& files, const HfTokens& tokens, const std::string& name) {
  HfTokens all = hf_tokens_of(files, name);
  const HfTokens before = all;
  if (!all.bos) all.bos = tokens.bos;
  if (all.eos.empty()) all.eos = tokens.eos;
  if (all == before) return;
  for (TokenizerFiles::File& file : files.files)
    if (file.name == kGenerationConfig) {
      auto object = ordered_json::parse(file.content);
      write_hf_tokens(object, all);
      file.content = object.dump(2) + "\n";
      return;
    }
  files.files.push_back({std::string(kGenerationConfig), hf_generation_config_text(all)});
}

std::string hf_generation_config_text(const HfTokens& tokens) {
  ordered_json out;
  write_hf_tokens(out, tokens);
  return out.dump(2) + "\n";
}

}  // namespace sextant
