#include "train/same_tokenizer.h"

#include "base/error.h"
#include "checkpoint/digest.h"
#include "checkpoint/hf.h"
#include "checkpoint/load.h"
#include "config/check.h"
#include "config/load.h"
#include "data/data_tokenizer.h"

namespace sextant {
namespace {

// An export of a model of plain bytes carries them as a tokenizer.json.
TokenizerDigest known(const std::string& digest) {
  return digest == digest_of(byte_tokenizer_files().json()) ? "" : digest;
}

}  // namespace

TokenizerDigest tokenizer_digest(const Manifest& manifest, const std::string& checkpoint) {
  if (!manifest.tokenizer.empty()) return known(manifest.tokenizer[0].xxh3_128);
  const DataConfig data = parse_config(manifest.state.config, checkpoint, {}).config.data;
  if (data.tokenizer == "bytes" || is_byte_text(data)) return "";
  return std::nullopt;
}

TokenizerDigest tokenizer_digest(const TokenizerFiles& files) {
  if (files.empty()) return std::nullopt;
  return known(digest_of(files.json()));
}

TokenizerDigest tokenizer_digest(const Loader& data) {
  if (data.tokenizer() == "bytes") return "";
  return tokenizer_digest(data.tokenizer_files());
}

TokenizerDigest tokenizer_digest(Storage& storage, const std::string& weights) {
  if (!is_hf_directory(storage, weights))
    return tokenizer_digest(read_manifest(storage, weights), weights);
  if (!storage.exists(join_path(weights, kTokenizerJson))) return std::nullopt;
  return tokenizer_digest(read_tokenizer_files(storage, weights));
}

void check_same_tokenizer(const TokenizerDigest& own, const TokenizerDigest& data,
                          const std::string& model) {
  if (!own || !data || *own == *data) return;
  SXT_FAIL(Data, model, " was trained ",
           own->empty() ? "on plain bytes" : "with its tokenizer.json", ", the data is of ",
           data->empty() ? "plain bytes" : "another tokenizer", ": tokenize the text with ",
           own->empty() ? "--tokenizer bytes" : "that of the checkpoint");
}

}  // namespace sextant
