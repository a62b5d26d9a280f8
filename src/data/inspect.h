#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/storage.h"
#include "config/config.h"
#include "data/tokenizer.h"

namespace sextant {

// What `data inspect` shows of a token file, all of which was read and checked.
struct TokenFileReport {
  TokenFormat format = TokenFormat::Auto;
  int64_t documents = 0, tokens = 0;
  int64_t vocab = 0;    // as the file says, else its highest id + 1
  int64_t max_id = -1;  // -1: no tokens
  int width = 0;        // bytes of a token
  bool has_checksums = false;
  bool has_loss_mask = false;
  int64_t loss_tokens = 0;         // that count in the loss
  std::string tokenizer;           // as recorded, or ""
  std::vector<int32_t> first_ids;  // the first few
  std::string first_text;          // the same decoded, when a tokenizer is given
};

// Throws Error(Data) for a file that is not whole.
TokenFileReport inspect_tokens(Storage& storage, const std::string& path, TokenFormat format,
                               const Tokenizer* tokenizer);

}  // namespace sextant
