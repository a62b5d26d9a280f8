#include "data/data_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/byte_alphabet.h"
#include "formats/hf_tokens.h"

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// Own files record their tokenizer: bytes have no hash.
bool is_recorded(const TokenSource& source) {
  return !source.tokenizer().empty();
}

// The first file that records its tokenizer; all that do must agree with it.
const TokenSource* recorded_in(std::span<const TokenSet* const> sets) {
  const TokenSource* first = nullptr;
  for (const TokenSet* set : sets)
    for (const TokenSource& shard : set->shards()) {
      if (!is_recorded(shard)) continue;
      if (first == nullptr) first = &shard;
      SXT_CHECK(shard.tokenizer_hash() == first->tokenizer_hash(), Data, shard.name(),
                " was made with the tokenizer ", shard.tokenizer(), ", ", first->name(),
                " with another one, ", first->tokenizer(), ": tokenize both with one of them");
    }
  return first;
}

std::string beside(const TokenSource& source) {
  return join_path(parent_path(source.name()), kTokenizerJson);
}

DataTokenizer from_file(Storage& storage, const TokenSource& source) {
  DataTokenizer out;
  if (source.tokenizer_hash() == 0) {
    out.tokenizer.emplace(Tokenizer::bytes());
    return out;
  }
  TokenizerFiles files = source.tokenizer_files();
  if (!files.empty()) {
    out.tokenizer.emplace(Tokenizer::from_files(std::move(files), source.name() + ": tokenizer"));
    return out;
  }
  for (const std::string& path : {source.tokenizer(), beside(source)}) {
    if (!storage.exists(path)) continue;
    Tokenizer found = Tokenizer::open(storage, path);
    if (found.hash() != source.tokenizer_hash()) continue;
    out.tokenizer.emplace(std::move(found));
    return out;
  }
  out.note = concat(source.name(), " was made with the tokenizer ", source.tokenizer(),
                    ", which is not there: checkpoints have none, set data.tokenizer");
  return out;
}

}  // namespace

DataTokenizer tokenizer_of(Storage& storage, std::span<const TokenSet* const> sets,
                           const std::string& setting) {
  const TokenSource* recorded = recorded_in(sets);
  if (!setting.empty()) {
    DataTokenizer out{Tokenizer::open(storage, setting), ""};
    SXT_CHECK(recorded == nullptr || recorded->tokenizer_hash() == out.tokenizer->hash(), Data,
              recorded ? recorded->name() : "", " was made with the tokenizer ",
              recorded ? recorded->tokenizer() : "", ", not with data.tokenizer = ", setting,
              ": unset it, or tokenize the text again");
    return out;
  }
  if (recorded != nullptr) return from_file(storage, *recorded);
  for (const TokenSet* set : sets)
    for (const TokenSource& shard : set->shards())
      if (storage.exists(beside(shard))) {
        DataTokenizer out{Tokenizer::open(storage, beside(shard)), ""};
        out.note = concat("tokenizer: ", beside(shard), ", beside the token file");
        return out;
      }
  return {std::nullopt,
          concat(sets.empty() ? "the data" : sets[0]->name(),
                 " does not say its tokenizer: checkpoints have none, set data.tokenizer")};
}

std::vector<BlendPart> sources_of(const DataConfig& data) {
  if (!data.blend.empty()) return parse_blend(data.blend);
  return {{1, data.path}};
}

DataVocabulary vocabulary_of(Storage& storage, const DataConfig& data) {
  if (data.kind == DataKind::Synthetic) return {};
  if (data.kind != DataKind::Tokens || !data.tokenizer.empty()) {
    const Tokenizer tokenizer = Tokenizer::open(storage, data.tokenizer);
    return {tokenizer.vocab(), tokenizer.hash() == 0};
  }
  for (const BlendPart& part : sources_of(data)) {
    if (part.path.empty()) return {};
    const std::string first = matching_files(storage, part.path, Content::Tokens).front();
    if (!storage.exists(first)) return {0, false, concat("cannot read ", first, ": no such file")};
    std::vector<TokenSource> one;
    one.push_back(TokenSource::open(storage, first, data.format));
    if (one[0].vocab() > 0) return {one[0].vocab(), one[0].tokenizer_hash() == 0};
    const TokenSet set(part.path, std::move(one));
    const TokenSet* const only[] = {&set};
    const DataTokenizer found = tokenizer_of(storage, only, "");
    if (found.tokenizer) return {found.tokenizer->vocab(), found.tokenizer->hash() == 0};
  }
  return {};
}

TokenizerFiles byte_tokenizer_files() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocab[token_of_byte(static_cast<unsigned char>(byte))] = byte;
  const Json level = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", false}};
  const Json root = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", Json::array()},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", level},
                     {"post_processor", nullptr},
                     {"decoder", level},
                     {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
  TokenizerFiles files{{{std::string(kTokenizerJson), root.dump(1) + "\n"}}};
  add_hf_tokens(files, {.eos = {0}}, "bytes");
  return files;
}

void complete_for_transformers(TokenizerFiles& files, int64_t seq) {
  constexpr std::string_view kConfig = "tokenizer_config.json";
  if (files.empty()) return;
  const Tokenizer tokenizer = Tokenizer::from_files(files, std::string(kTokenizerJson));
  add_hf_tokens(
      files,
      {tokenizer.bos(), std::vector<int64_t>(tokenizer.eos().begin(), tokenizer.eos().end())},
      std::string(kTokenizerJson));
  if (files.find(kConfig) != nullptr) return;
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false},
                 {"model_max_length", seq}};
  if (const std::optional<int32_t> bos = tokenizer.bos();
      bos && tokenizer.encode(tokenizer.bytes_of(*bos)) == std::vector<int32_t>{*bos})
    config["bos_token"] = tokenizer.bytes_of(*bos);
  if (tokenizer.eod()) config["eos_token"] = tokenizer.bytes_of(*tokenizer.eod());
  files.files.push_back({std::string(kConfig), config.dump(2) + "\n"});
}

}  // namespace sextant
