#include "data/train_tokenizer.h"

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <unordered_map>

#include "base/error.h"
#include "base/parse.h"
#include "data/bpe_merges.h"
#include "data/bpe_tokenizer.h"
#include "data/byte_alphabet.h"

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;
using Counts = std::unordered_map<std::string, int64_t>;

constexpr int64_t kLeast = 2;  // occurrences of a pair that is worth a token
constexpr size_t kCountedAtOnce = 8 << 20;

// Counts the words of documents on one thread; a failure is kept for the caller.
struct Counter {
  const WordSplit& split;
  PatternScratch space = make_pattern_scratch();
  std::vector<std::string_view> words = {};
  Counts counts = {};
  std::exception_ptr error = nullptr;

  void count(std::vector<RawDocument>& documents, size_t first, size_t step) noexcept {
    try {
      for (size_t i = first; i < documents.size(); i += step) count_one(std::move(documents[i]));
    } catch (...) {
      error = std::current_exception();
    }
  }

 private:
  void count_one(RawDocument raw) {
    const std::string where = raw.where;
    const Document document = parse_document(std::move(raw));
    for (const std::string* text : {&document.prompt, &document.text}) {
      SXT_CHECK(is_utf8(*text), Data, where, ": text is not UTF-8");
      words.clear();
      cut_words(words, split, *text, *space);
      for (const std::string_view word : words) ++counts[std::string(word)];
    }
  }
};

void count_batch(std::vector<Counter>& counters, std::vector<RawDocument>& batch) {
  std::vector<std::thread> threads;
  for (size_t i = 1; i < counters.size(); ++i)
    threads.emplace_back([&, i] { counters[i].count(batch, i, counters.size()); });
  counters[0].count(batch, 0, counters.size());
  for (std::thread& thread : threads) thread.join();
  for (const Counter& counter : counters)
    if (counter.error) std::rethrow_exception(counter.error);
  batch.clear();
}

// Sorted, so that the result does not depend on the number of threads.
std::map<std::string, int64_t> count_words(Storage& storage, const TrainTokenizerOptions& options,
                                           TrainTokenizerProgress& progress) {
  const WordSplit split{Pattern(kGpt2Pattern, "word pattern"), Unmatched::Keep};
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const int threads = options.threads > 0 ? options.threads : static_cast<int>(cores);
  std::vector<Counter> counters;
  for (int i = 0; i < threads; ++i) counters.push_back(Counter{split});
  std::vector<RawDocument> batch;
  size_t bytes = 0;
  const auto flush = [&] {
    progress.documents += static_cast<int64_t>(batch.size());
    progress.bytes += static_cast<int64_t>(bytes);
    count_batch(counters, batch);
    bytes = 0;
    if (options.on_progress) options.on_progress(progress);
  };
  int64_t taken_before = 0;  // of earlier files
  for (const std::string& input : options.inputs) {
    DocumentReader reader(storage, input, TextSplit::File);
    while (std::optional<RawDocument> raw = reader.next()) {
      progress.taken = taken_before + reader.taken();
      bytes += raw->text.size();
      batch.push_back(std::move(*raw));
      if (bytes >= kCountedAtOnce) flush();
    }
    taken_before += reader.taken();
  }
  flush();
  std::map<std::string, int64_t> all;
  for (const Counter& counter : counters)
    for (const auto& [word, count] : counter.counts) all[word] += count;
  return all;
}

Json byte_level(bool has_pattern) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", has_pattern}};
}

// `tokens`: the texts of ids in the byte alphabet.
std::string to_json(const std::vector<std::string>& tokens, const std::vector<LearnedMerge>& merges,
                    const std::vector<std::string>& specials) {
  Json vocab = Json::object(), pairs = Json::array(), added = Json::array();
  for (size_t i = 0; i < tokens.size(); ++i) vocab[tokens[i]] = i;
  for (const LearnedMerge& merge : merges)
    pairs.push_back(tokens[static_cast<size_t>(merge.left)] + " " +
                    tokens[static_cast<size_t>(merge.right)]);
  for (size_t i = 0; i < specials.size(); ++i)
    added.push_back({{"id", tokens.size() + i},
                     {"content", specials[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  const Json root = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level(true)},
                     {"post_processor", byte_level(true)},
                     {"decoder", byte_level(true)},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"vocab", vocab},
                       {"merges", pairs}}}};
  return root.dump(1) + "\n";
}

}  // namespace

TrainedTokenizer train_tokenizer(Storage& storage, const TrainTokenizerOptions& options) {
  const auto specials = static_cast<int64_t>(options.specials.size());
  SXT_CHECK(options.vocab >= 256 + specials, Usage, "a vocabulary of ", options.vocab,
            ": at least ", 256 + specials, " are needed, for the bytes and special tokens");
  SXT_CHECK(!options.inputs.empty(), Usage, "data train-tokenizer: no input files");
  TrainTokenizerProgress progress;
  progress.stored = stored_bytes(storage, options.inputs);
  progress.merges_most = options.vocab - specials - 256;
  const std::map<std::string, int64_t> counts = count_words(storage, options, progress);
  SXT_CHECK(!counts.empty(), Data, "data train-tokenizer: the input files hold no text");
  // Ids of bytes in the order of their characters, as in the reference.
  std::vector<std::pair<char32_t, unsigned char>> alphabet;
  for (int byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<unsigned char>(byte);
    alphabet.push_back({utf8_at(token_of_byte(value), 0), value});
  }
  std::ranges::sort(alphabet);
  std::vector<std::string> tokens;
  std::array<int32_t, 256> id_of{};
  for (const auto& [code, byte] : alphabet) {
    id_of[byte] = static_cast<int32_t>(tokens.size());
    tokens.push_back(token_of_byte(byte));
  }
  std::vector<CountedWord> words;
  for (const auto& [word, count] : counts) {
    CountedWord entry{{}, count};
    for (const char c : word) entry.ids.push_back(id_of[static_cast<unsigned char>(c)]);
    words.push_back(std::move(entry));
  }
  const std::vector<LearnedMerge> merges =
      learn_merges(tokens, std::move(words), options.vocab - specials, kLeast, [&](int64_t done) {
        progress.merges = done;
        if (options.on_progress && done % 100 == 0) options.on_progress(progress);
      });
  return {to_json(tokens, merges, options.specials), static_cast<int64_t>(tokens.size()) + specials,
          static_cast<int64_t>(merges.size()), static_cast<int64_t>(counts.size())};
}

}  // namespace sextant
