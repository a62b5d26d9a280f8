#pragma once
#include <optional>
#include <span>
#include <string>

#include "base/storage.h"
#include "config/config.h"
#include "data/token_set.h"
#include "data/tokenizer.h"

namespace sextant {

// The tokenizer of some data, if it is known; otherwise `note` says why not, in one line.
struct DataTokenizer {
  std::optional<Tokenizer> tokenizer;
  std::string note;
};

// The tokenizer of token files: the one of `setting` (data.tokenizer), else the one in the files,
// or what a version 1 file names, or a tokenizer.json beside a file of another program. Error(Data)
// when files were made with different tokenizers, or with another one than `setting`.
DataTokenizer tokenizer_of(Storage& storage, std::span<const TokenSet* const> sets,
                           const std::string& setting);

// Vocabulary of the data of a configuration. Reads headers and the tokenizer only.
struct DataVocabulary {
  int64_t ids = 0;  // 0: unknown, or the data is not there
  bool is_bytes = false;
  std::string problem = {};  // why they are unknown, where there is a reason
};
DataVocabulary vocabulary_of(Storage& storage, const DataConfig& data);

// The sources of `data`: those of data.blend, else data.path.
std::vector<BlendPart> sources_of(const DataConfig& data);

// The byte tokenizer as a tokenizer.json with the same ids, for other programs.
TokenizerFiles byte_tokenizer_files();

// Adds what is missing for transformers: a tokenizer_config.json, so that AutoTokenizer takes
// tokenizer.json as it is, and in generation_config.json the tokens that begin and end a text.
void complete_for_transformers(TokenizerFiles& files, int64_t seq);

}  // namespace sextant
