#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/storage.h"
#include "data/documents.h"
#include "data/token_writer.h"
#include "data/tokenizer.h"

namespace sextant {

struct TokenizeProgress {
  int64_t documents = 0, tokens = 0, bytes = 0;  // so far; bytes of text
  int64_t taken = 0, stored = 0;                 // bytes of the input files: read so far, and all
  std::string file;                              // current
};

struct TokenizeOptions {
  std::vector<std::string> inputs;  // files for DocumentReader, in order
  TextSplit split = TextSplit::File;
  Specials specials = Specials::Without;
  int threads = 0;                                           // 0: all cores
  std::function<void(const TokenizeProgress&)> on_progress;  // may be empty
};

// Called with a document's ids and, with prompts, its mask (else empty); in input order, serially.
using DocumentSink = std::function<void(std::span<const int32_t>, std::span<const uint8_t>)>;

// Tokenizes all documents in parallel and passes them on in order, so that the result does not
// depend on the number of threads. Each ends with the tokenizer's end-of-document token, if it has
// one. Memory is bounded by a batch, or the largest document.
TokenizeProgress tokenize_documents(Storage& storage, const Tokenizer& tokenizer,
                                    const TokenizeOptions& options, const DocumentSink& sink);

// Whether the first record of any jsonl input has a prompt, so that the output needs a mask.
LossMask needed_mask(Storage& storage, std::span<const std::string> inputs);

struct TokenizeSummary {
  int64_t documents = 0, tokens = 0, vocab = 0;
  int64_t bytes = 0;  // of text
};

// `data tokenize`: writes the documents of `options.inputs` to a token file in Sextant's format.
TokenizeSummary tokenize_to_file(Storage& storage, const Tokenizer& tokenizer,
                                 const TokenizeOptions& options, const std::string& out);

}  // namespace sextant
