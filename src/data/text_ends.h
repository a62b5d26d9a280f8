#pragma once
#include <string>

#include "data/bpe_tokenizer.h"
#include "data/tokenizer.h"

namespace sextant {

// The ids of generation_config.json, else the names of tokenizer_config.json, else what the
// tokenizer itself shows: its template begins a text, its end-of-document token ends one, in any
// case. Error(Data) begins with `name`.
TextEnds text_ends(const BpeTokenizer& tokenizer, const TokenizerFiles& files,
                   const std::string& name);

}  // namespace sextant
