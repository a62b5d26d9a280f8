#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/storage.h"
#include "config/config.h"
#include "data/tokenizer.h"

namespace sextant {

// Output of `data inspect` for a token file, after reading and checking all of it.
struct TokenFileReport {
  TokenFormat format = TokenFormat::Auto;
  int64_t documents = 0, tokens = 0;
  int64_t vocab = 0;    // from the file, else highest id + 1
  int64_t max_id = -1;  // -1: no tokens
  int width = 0;        // bytes per token
  bool has_checksums = false;
  bool has_loss_mask = false;
  int64_t loss_tokens = 0;         // tokens in the loss
  std::string tokenizer;           // as recorded, or ""
  std::vector<int32_t> first_ids;  // the first few
  std::string first_text;          // the same decoded, if a tokenizer is given
};

// Throws Error(Data) for an incomplete file.
TokenFileReport inspect_tokens(Storage& storage, const std::string& path, TokenFormat format,
                               const Tokenizer* tokenizer);

}  // namespace sextant
