#pragma once
#include <optional>
#include <string>

#include "checkpoint/manifest.h"
#include "data/loader.h"
#include "formats/tokenizer_files.h"

namespace sextant {

// Which tokenizer made some data, or trained a model: the digest of its tokenizer.json, "" for
// plain bytes (in whatever form), nothing where it is not known.
using TokenizerDigest = std::optional<std::string>;

TokenizerDigest tokenizer_digest(const Manifest& manifest, const std::string& checkpoint);
TokenizerDigest tokenizer_digest(const TokenizerFiles& files);
TokenizerDigest tokenizer_digest(const Loader& data);
// Of a checkpoint, or of a Hugging Face directory.
TokenizerDigest tokenizer_digest(Storage& storage, const std::string& weights);

// Error(Data) if both are known and differ; `model` names what was trained with the first.
void check_same_tokenizer(const TokenizerDigest& own, const TokenizerDigest& data,
                          const std::string& model);

}  // namespace sextant
