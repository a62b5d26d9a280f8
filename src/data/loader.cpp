#include "data/loader.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "data/corpus.h"
#include "data/data_tokenizer.h"
#include "data/shuffle.h"

namespace sextant {
namespace {

constexpr int64_t kSyntheticSamples = int64_t{1} << 40;
constexpr int64_t kCheckedAtOnce = int64_t{1}
                                   << 24;  // tokens of a set that is read through at open
constexpr int64_t kTokensPerRead = 1 << 16;
constexpr uint64_t kBlendSeed = 0x9E3779B97F4A7C15ULL;

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

TokenSource text_source(Storage& storage, const Tokenizer& tokenizer, const std::string& path,
                        const LoaderSettings& settings) {
  TokenizeOptions options;
  options.inputs = matching_files(storage, path, Content::Text);
  options.threads = settings.threads;
  options.on_progress = settings.on_progress;
  TokenBuffer buffer;
  tokenize_documents(storage, tokenizer, options,
                     [&](std::span<const int32_t> ids, std::span<const uint8_t> mask) {
                       buffer.append(ids, mask);
                     });
  return TokenSource::from_memory(std::move(buffer), path, tokenizer.vocab());
}

TokenSet one_source(TokenSource source) {
  std::vector<TokenSource> one;
  one.push_back(std::move(source));
  std::string name = one[0].name();
  return TokenSet(std::move(name), std::move(one));
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

TokenSet Loader::open_set(Storage& storage, const DataConfig& data, const std::string& path,
                          const LoaderSettings& settings) const {
  if (data.kind == DataKind::Tokens) return open_tokens(storage, path, data.format);
  const Tokenizer tokenizer = Tokenizer::open(storage, data.tokenizer);
  check_vocab(tokenizer, settings.vocab);
  return one_source(data.kind == DataKind::Builtin
                        ? builtin_source(tokenizer)
                        : text_source(storage, tokenizer, path, settings));
}

Loader Loader::open(Storage& storage, const DataConfig& data, const LoaderSettings& settings) {
  Loader loader(data, settings);
  if (data.kind == DataKind::Synthetic) return loader;
  const std::vector<BlendPart> parts = sources_of(data);
  for (const BlendPart& part : parts)
    loader.sources_.push_back({loader.open_set(storage, data, part.path, settings), {}, {}, 0});
  SXT_CHECK(data.eval_path.empty() || data.kind != DataKind::Builtin, Config,
            "data.eval_path = ", data.eval_path,
            " needs data.kind tokens or text; the builtin corpus holds out data.eval_fraction");
  loader.set_shares(parts);
  if (!data.eval_path.empty())
    loader.sources_.push_back(
        {loader.open_set(storage, data, data.eval_path, settings), {}, {}, 0});
  loader.take_tokenizer(storage, data);
  if (settings.on_tokenizer) settings.on_tokenizer(loader);
  for (size_t i = 0; i < loader.sources_.size(); ++i) {
    Source& source = loader.sources_[i];
    if (source.tokens.tokens() <= kCheckedAtOnce) loader.check_ids(source.tokens);
    if (i == parts.size())
      source.eval = loader.whole(source.tokens, "evaluation");
    else if (!data.eval_path.empty())
      source.train = loader.whole(source.tokens, "training");
    else
      loader.split_tail(source, data.eval_fraction);
  }
  return loader;
}

void Loader::take_tokenizer(Storage& storage, const DataConfig& data) {
  DataTokenizer found;
  if (data.kind == DataKind::Tokens) {
    std::vector<const TokenSet*> sets;
    for (const Source& source : sources_) sets.push_back(&source.tokens);
    found = tokenizer_of(storage, sets, data.tokenizer);
  } else {
    found.tokenizer.emplace(Tokenizer::open(storage, data.tokenizer));
  }
  note_ = found.note;
  if (!found.tokenizer) return;
  tokenizer_ = found.tokenizer->name();
  tokenizer_files_ = found.tokenizer->files();
}

// Whole samples of a block for each source, by largest remainder.
void Loader::set_shares(std::span<const BlendPart> parts) {
  double sum = 0;
  for (const BlendPart& part : parts) sum += part.weight;
  int64_t left = kBlendBlock;
  std::vector<std::pair<double, size_t>> rests;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double exact = parts[i].weight / sum * kBlendBlock;
    sources_[i].share = static_cast<int64_t>(exact);
    left -= sources_[i].share;
    rests.push_back({static_cast<double>(sources_[i].share) - exact, i});
  }
  std::ranges::sort(rests);
  for (int64_t i = 0; i < left; ++i) ++sources_[rests[static_cast<size_t>(i)].second].share;
  for (size_t i = 0; i < parts.size(); ++i)
    SXT_CHECK(sources_[i].share > 0, Config, "data.blend: ", parts[i].path, " has the weight ",
              parts[i].weight, " of ", sum, ", less than one sample in ", kBlendBlock);
}

void Loader::check_ids(const TokenSet& tokens) const {
  std::vector<int32_t> ids;
  for (const TokenSource& shard : tokens.shards())
    for (int64_t at = 0; at < shard.tokens(); at += kTokensPerRead) {
      ids.resize(static_cast<size_t>(std::min(kTokensPerRead, shard.tokens() - at)));
      shard.read(ids, at, vocab_);
    }
}

Loader::Part Loader::whole(const TokenSet& tokens, const char* purpose) const {
  SXT_CHECK(tokens.tokens() > seq_, Data, tokens.name(), ": ", tokens.tokens(), " tokens, ",
            purpose, " with model.seq = ", seq_, " needs at least ", seq_ + 1);
  return {0, tokens.tokens(), (tokens.tokens() - 1) / seq_};
}

void Loader::split_tail(Source& source, double fraction) const {
  const TokenSet& tokens = source.tokens;
  if (fraction <= 0) {
    source.train = whole(tokens, "training");
    return;
  }
  const int64_t all = tokens.tokens();
  SXT_CHECK(all >= 2 * (seq_ + 1), Data, tokens.name(), ": ", all, " tokens, model.seq = ", seq_,
            " needs at least ", 2 * (seq_ + 1),
            ": one sample for training and one held out (data.eval_fraction = 0 holds out none)");
  const auto wanted = static_cast<int64_t>(std::ceil(fraction * static_cast<double>(all)));
  const int64_t cut = find_cut(tokens, all - std::clamp(wanted, seq_ + 1, all - seq_ - 1));
  source.train = {0, cut, (cut - 1) / seq_};
  source.eval = {cut, all, (all - cut - 1) / seq_};
}

// The first document that starts in the first half of the tail, so that no document is in both
// parts; `at` itself if there is none, or too little would remain after it.
int64_t Loader::find_cut(const TokenSet& tokens, int64_t at) const {
  const int64_t last = std::min(at + (tokens.tokens() - at) / 2, tokens.tokens() - seq_ - 1);
  std::vector<int64_t> starts;
  std::vector<int32_t> scratch;
  for (int64_t from = at; from <= last; from += kTokensPerRead) {
    tokens.document_starts(starts, scratch, from, std::min(from + kTokensPerRead, last + 1));
    if (!starts.empty()) return starts.front();
  }
  return at;
}

int64_t Loader::samples(Split split) const {
  if (is_synthetic_) return kSyntheticSamples;
  int64_t sum = 0;
  for (const Source& source : sources_)
    sum += split == Split::Train ? source.train.samples : source.eval.samples;
  return sum;
}

int64_t Loader::tokens(Split split) const {
  int64_t sum = 0;
  for (const Source& source : sources_) {
    const Part& part = split == Split::Train ? source.train : source.eval;
    sum += part.end - part.begin;
  }
  return sum;
}

std::vector<EvalSource> Loader::eval_sources() const {
  std::vector<EvalSource> out;
  int64_t first = 0;
  for (const Source& source : sources_) {
    if (source.eval.samples == 0) continue;
    out.push_back({source.tokens.name(), first, source.eval.samples});
    first += source.eval.samples;
  }
  return out;
}

Cursor Loader::cursor(int64_t sample) const {
  return {sample / samples(Split::Train), sample % samples(Split::Train)};
}

int64_t Loader::sample_at(Cursor cursor) const {
  return cursor.epoch * samples(Split::Train) + cursor.index;
}

Loader::Place Loader::train_place(int64_t sample) const {
  size_t source = 0;
  if (sources_[0].share < kBlendBlock) {
    const int64_t block = sample / kBlendBlock;
    int64_t at = shuffled(sample % kBlendBlock, kBlendBlock, seed_ ^ kBlendSeed, block);
    while (at >= sources_[source].share) at -= sources_[source++].share;
    sample = block * sources_[source].share + at;
  }
  const int64_t count = sources_[source].train.samples;
  return {source, shuffled(sample % count, count, seed_ + source * kBlendSeed, sample / count)};
}

Loader::Place Loader::eval_place(int64_t sample) const {
  sample %= samples(Split::Eval);
  for (size_t source = 0;; ++source) {
    if (sample < sources_[source].eval.samples) return {source, sample};
    sample -= sources_[source].eval.samples;
  }
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
  SXT_CHECK(samples(split) > 0, Usage, "no samples are held out for evaluation; set ",
            "data.eval_path or data.eval_fraction");
  SXT_CHECK(first_sample >= 0 && count >= 0, Internal, "loader: samples from ", first_sample,
            ", count ", count);
  resize(batch, count, seq_);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t sample = first_sample + row;
    if (is_synthetic_) {
      fill_synthetic(batch, row, split, sample);
      continue;
    }
    const Place place = split == Split::Train ? train_place(sample) : eval_place(sample);
    const Source& source = sources_[place.source];
    const Part& part = split == Split::Train ? source.train : source.eval;
    fill_row(batch, row, source.tokens, part.begin + place.sample * seq_);
  }
}

void Loader::fill_row(HostBatch& batch, int64_t row, const TokenSet& source, int64_t begin) const {
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
