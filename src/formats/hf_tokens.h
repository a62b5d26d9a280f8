#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hf_keys.h"
#include "formats/tokenizer_files.h"

namespace sextant {

inline constexpr std::string_view kGenerationConfig = "generation_config.json";

// The tokens that begin and end a text, as config.json and generation_config.json have them.
struct HfTokens {
  std::optional<int64_t> bos = {};
  std::vector<int64_t> eos = {};  // generation ends at any of them
  bool operator==(const HfTokens&) const = default;
};

HfTokens read_hf_tokens(const HfKeys& keys);
void write_hf_tokens(nlohmann::ordered_json& out, const HfTokens& tokens);

// Those of the generation_config.json among `files`, if there is one; `name` begins an error.
HfTokens hf_tokens_of(const TokenizerFiles& files, const std::string& name);
// Adds those that the generation_config.json of `files` does not say.
void add_hf_tokens(TokenizerFiles& files, const HfTokens& tokens, const std::string& name);
// The smallest generation_config.json.
std::string hf_generation_config_text(const HfTokens& tokens);

}  // namespace sextant
