#include "data/loader.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "data/corpus.h"
#include "data/shuffle.h"

namespace sextant {
namespace {

constexpr int64_t kSyntheticSamples = int64_t{1} << 40;
constexpr int64_t kCheckedAtOnce = int64_t{1}
                                   << 24;  // tokens of a set that is read through at open
constexpr int64_t kTokensPerRead = 1 << 16;

void check_vocab(const Tokenizer& tokenizer, int64_t vocab) {
  SXT_CHECK(tokenizer.vocab() <= vocab, Config, "model.vocab = ", vocab, ", but the tokenizer ",
            tokenizer.name(), " has ", tokenizer.vocab(), " ids");
}

TokenSource builtin_source(const Tokenizer& tokenizer) {
  TokenBuffer buffer;
  Encoder encoder(tokenizer);
  std::vector<int32_t> ids;
  for (const std::string& document : builtin_documents(kBuiltinSeed, kBuiltinBytes)) {
    ids.clear();
    encoder.encode(ids, document);
    if (tokenizer.eod()) ids.push_back(*tokenizer.eod());
    buffer.append(ids, {});
  }
  return TokenSource::from_memory(std::move(buffer), "builtin corpus", tokenizer.vocab());
}

// The file, or all files of the directory sorted by name.
std::vector<std::string> text_files(Storage& storage, const std::string& path) {
  if (!storage.is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const std::string& name : storage.list(path)) {
    const std::string file = join_path(path, name);
    if (!storage.is_directory(file)) files.push_back(file);
  }
  return files;
}

TokenSource text_source(Storage& storage, const Tokenizer& tokenizer, const std::string& path,
                        const LoaderSettings& settings) {
  TokenizeOptions options;
  options.inputs = text_files(storage, path);
  options.threads = settings.threads;
  options.on_progress = settings.on_progress;
  TokenBuffer buffer;
  tokenize_documents(storage, tokenizer, options,
                     [&](std::span<const int32_t> ids, std::span<const uint8_t> mask) {
                       buffer.append(ids, mask);
                     });
  return TokenSource::from_memory(std::move(buffer), path, tokenizer.vocab());
}

void resize(HostBatch& batch, int64_t rows, int64_t seq) {
  batch.batch = rows;
  batch.seq = seq;
  const auto size = static_cast<size_t>(rows * seq);
  for (std::vector<int32_t>* values :
       {&batch.tokens, &batch.targets, &batch.starts, &batch.positions})
    values->resize(size);
  batch.indices.clear();
  batch.is_numbered = false;
  batch.scratch.ids.resize(static_cast<size_t>(seq + 1));
  batch.scratch.mask.resize(static_cast<size_t>(seq + 1));
  batch.scratch.starts.reserve(static_cast<size_t>(seq + 1));
}

}  // namespace

Loader::Loader(const DataConfig& data, const LoaderSettings& settings)
    : seq_(settings.seq),
      vocab_(settings.vocab),
      seed_(settings.seed),
      is_synthetic_(data.kind == DataKind::Synthetic),
      masks_documents_(data.document_mask) {
  SXT_CHECK(seq_ > 0 && vocab_ > 0, Internal, "loader: seq ", seq_, ", vocab ", vocab_);
}

Loader Loader::open(Storage& storage, const DataConfig& data, const LoaderSettings& settings) {
  Loader loader(data, settings);
  if (data.kind == DataKind::Synthetic) {
    loader.train_.samples = loader.eval_.samples = kSyntheticSamples;
    return loader;
  }
  const auto open_source = [&](const std::string& path) {
    if (data.kind == DataKind::Tokens) return TokenSource::open(storage, path, data.format);
    const Tokenizer tokenizer = Tokenizer::open(storage, data.tokenizer);
    check_vocab(tokenizer, settings.vocab);
    if (data.kind == DataKind::Builtin) return builtin_source(tokenizer);
    return text_source(storage, tokenizer, path, settings);
  };
  loader.add_source(open_source(data.path));
  if (data.eval_path.empty()) {
    loader.split_tail(data.eval_fraction);
    return loader;
  }
  SXT_CHECK(data.kind != DataKind::Builtin, Config, "data.eval_path = ", data.eval_path,
            " needs data.kind tokens or text; the builtin corpus holds out data.eval_fraction");
  loader.add_source(open_source(data.eval_path));
  loader.use_whole(loader.train_, 0, "training");
  loader.use_whole(loader.eval_, 1, "evaluation");
  return loader;
}

void Loader::add_source(TokenSource source) {
  if (source.tokens() <= kCheckedAtOnce) check_ids(source);
  sources_.push_back(std::move(source));
}

void Loader::check_ids(const TokenSource& source) const {
  std::vector<int32_t> ids;
  for (int64_t at = 0; at < source.tokens(); at += kTokensPerRead) {
    ids.resize(static_cast<size_t>(std::min(kTokensPerRead, source.tokens() - at)));
    source.read(ids, at, vocab_);
  }
}

void Loader::use_whole(Part& part, size_t source, const char* purpose) const {
  const TokenSource& tokens = sources_[source];
  part = {source, 0, tokens.tokens(), (tokens.tokens() - 1) / seq_};
  SXT_CHECK(tokens.tokens() > seq_, Data, tokens.name(), ": ", tokens.tokens(), " tokens, ",
            purpose, " with model.seq = ", seq_, " needs at least ", seq_ + 1);
}

void Loader::split_tail(double fraction) {
  if (fraction <= 0) return use_whole(train_, 0, "training");
  const TokenSource& source = sources_[0];
  const int64_t all = source.tokens();
  SXT_CHECK(all >= 2 * (seq_ + 1), Data, source.name(), ": ", all, " tokens, model.seq = ", seq_,
            " needs at least ", 2 * (seq_ + 1),
            ": one sample for training and one held out (data.eval_fraction = 0 holds out none)");
  const auto wanted = static_cast<int64_t>(std::ceil(fraction * static_cast<double>(all)));
  const int64_t cut = find_cut(source, all - std::clamp(wanted, seq_ + 1, all - seq_ - 1));
  train_ = {0, 0, cut, (cut - 1) / seq_};
  eval_ = {0, cut, all, (all - cut - 1) / seq_};
}

// The first document that starts in the first half of the tail, so that no document is in both
// parts; `at` itself if there is none, or too little would remain after it.
int64_t Loader::find_cut(const TokenSource& source, int64_t at) const {
  const int64_t last = std::min(at + (source.tokens() - at) / 2, source.tokens() - seq_ - 1);
  std::vector<int64_t> starts;
  std::vector<int32_t> scratch;
  for (int64_t from = at; from <= last; from += kTokensPerRead) {
    source.document_starts(starts, scratch, from, std::min(from + kTokensPerRead, last + 1));
    if (!starts.empty()) return starts.front();
  }
  return at;
}

int64_t Loader::samples(Split split) const {
  return part(split).samples;
}

int64_t Loader::tokens(Split split) const {
  return part(split).end - part(split).begin;
}

Cursor Loader::cursor(int64_t sample) const {
  return {sample / train_.samples, sample % train_.samples};
}

int64_t Loader::sample_at(Cursor cursor) const {
  return cursor.epoch * train_.samples + cursor.index;
}

void fill_row(HostBatch& batch, std::span<const int32_t> tokens, int64_t first_position) {
  batch.batch = 1;
  batch.seq = static_cast<int64_t>(tokens.size());
  batch.tokens.assign(tokens.begin(), tokens.end());
  batch.targets.assign(tokens.size(), -1);
  batch.starts.assign(tokens.size(), 0);
  batch.positions.resize(tokens.size());
  std::iota(batch.positions.begin(), batch.positions.end(), static_cast<int32_t>(first_position));
}

void pad_rows(HostBatch& batch, int64_t rows) {
  const int64_t filled = batch.batch * batch.seq;
  resize(batch, rows, batch.seq);
  for (int64_t i = filled; i < rows * batch.seq; ++i) {
    const auto at = static_cast<size_t>(i);
    batch.tokens[at] = 0;
    batch.targets[at] = -1;
    batch.starts[at] = 0;
    batch.positions[at] = static_cast<int32_t>(i % batch.seq);
  }
}

void number_tokens(HostBatch& batch, int64_t first_row) {
  batch.is_numbered = true;
  batch.indices.resize(batch.tokens.size());
  std::iota(batch.indices.begin(), batch.indices.end(),
            static_cast<int32_t>(first_row * batch.seq));
}

void Loader::fill(HostBatch& batch, Split split, int64_t first_sample, int64_t count) const {
  const Part& from = part(split);
  SXT_CHECK(from.samples > 0, Usage, "no samples are held out for evaluation; set data.eval_path ",
            "or data.eval_fraction");
  SXT_CHECK(first_sample >= 0 && count >= 0, Internal, "loader: samples from ", first_sample,
            ", count ", count);
  resize(batch, count, seq_);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t sample = first_sample + row;
    if (is_synthetic_) {
      fill_synthetic(batch, row, split, sample);
      continue;
    }
    const int64_t epoch = sample / from.samples, index = sample % from.samples;
    const int64_t place =
        split == Split::Train ? shuffled(index, from.samples, seed_, epoch) : index;
    fill_row(batch, row, from, place);
  }
}

void Loader::fill_row(HostBatch& batch, int64_t row, const Part& part, int64_t place) const {
  const TokenSource& source = sources_[part.source];
  const int64_t begin = part.begin + place * seq_;
  std::vector<int32_t>& ids = batch.scratch.ids;
  std::vector<int64_t>& starts = batch.scratch.starts;
  source.read(ids, begin, vocab_);
  source.read_mask(batch.scratch.mask, begin);
  starts.clear();
  if (masks_documents_)
    source.document_starts(starts, batch.scratch.scan, begin + 1, begin + seq_ + 1);
  const auto base = static_cast<size_t>(row * seq_);
  size_t next = 0;  // index of the first start after the current token
  int32_t start = 0;
  for (int64_t j = 0; j < seq_; ++j) {
    const auto i = static_cast<size_t>(j);
    const bool ends_document = next < starts.size() && starts[next] == begin + j + 1;
    const bool counts = batch.scratch.mask[i + 1] != 0 && !ends_document;
    batch.tokens[base + i] = ids[i];
    batch.targets[base + i] = counts ? ids[i + 1] : -1;
    batch.starts[base + i] = start;
    batch.positions[base + i] = static_cast<int32_t>(j) - start;
    if (ends_document) {
      start = static_cast<int32_t>(j + 1);
      ++next;
    }
  }
}

void Loader::fill_synthetic(HostBatch& batch, int64_t row, Split split, int64_t sample) const {
  const Random random(seed_, split == Split::Train ? "data.synthetic" : "data.synthetic.eval");
  const auto base = static_cast<size_t>(row * seq_);
  const uint64_t first = static_cast<uint64_t>(sample) * static_cast<uint64_t>(seq_ + 1);
  const auto id = [&](int64_t j) {
    return static_cast<int32_t>(
        random.below(static_cast<uint64_t>(vocab_), first + static_cast<uint64_t>(j)));
  };
  int32_t here = id(0);
  for (int64_t j = 0; j < seq_; ++j) {
    const auto i = static_cast<size_t>(j);
    batch.tokens[base + i] = here;
    here = id(j + 1);
    batch.targets[base + i] = here;
    batch.starts[base + i] = 0;
    batch.positions[base + i] = static_cast<int32_t>(j);
  }
}

}  // namespace sextant
