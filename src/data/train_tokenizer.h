#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/storage.h"
#include "data/documents.h"

namespace sextant {

struct TrainTokenizerProgress {
  int64_t documents = 0, bytes = 0;     // of text, so far
  int64_t taken = 0, stored = 0;        // bytes of the input files: read so far, and all
  int64_t merges = 0, merges_most = 0;  // made so far, and what the vocabulary has room for
};

struct TrainTokenizerOptions {
  std::vector<std::string> inputs;                                 // files for DocumentReader
  int64_t vocab = 0;                                               // with the special tokens
  std::vector<std::string> specials = {"<|endoftext|>"};           // the first ends documents
  int threads = 0;                                                 // 0: all cores
  std::function<void(const TrainTokenizerProgress&)> on_progress;  // may be empty
};

struct TrainedTokenizer {
  std::string json;  // tokenizer.json
  int64_t vocab = 0, merges = 0, words = 0;
};

// A byte-level BPE with the words of GPT-2: the most frequent pair of tokens is merged, again and
// again; among equally frequent ones the pair of lower ids. The merges are those of the
// `tokenizers` library for the same text. Ends early when no pair occurs twice. Counts of different
// words are in memory. Error(Usage) for a vocabulary below the 256 bytes and special tokens.
TrainedTokenizer train_tokenizer(Storage& storage, const TrainTokenizerOptions& options);

}  // namespace sextant
