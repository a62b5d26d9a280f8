#include "data/tokenize.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "base/error.h"

namespace sextant {
namespace {

constexpr size_t kBatchBytes = 8 << 20, kBatchDocuments = 1 << 14;
constexpr int kMostThreads = 1024;

struct Work {
  RawDocument raw;
  std::vector<int32_t> ids;
  std::vector<uint8_t> mask;
  std::exception_ptr error;
};

void encode_one(Work& work, Encoder& encoder, const Tokenizer& tokenizer, Specials specials) {
  const std::string where = work.raw.where;
  const Document document = parse_document(std::move(work.raw));
  try {
    if (document.has_prompt) {
      encoder.encode(work.ids, document.prompt, specials);
      const size_t prompt = work.ids.size();
      encoder.encode(work.ids, document.text);
      work.mask.assign(prompt, 0);
      work.mask.resize(work.ids.size(), 1);
    } else {
      encoder.encode(work.ids, document.text, specials);
    }
  } catch (const Error& error) {
    throw Error(error.fault(), concat(where, ": ", error.what()));
  }
  if (tokenizer.eod()) {
    work.ids.push_back(*tokenizer.eod());
    if (document.has_prompt) work.mask.push_back(1);
  }
}

void encode_batch(std::vector<Work>& batch, std::vector<Encoder>& encoders,
                  const Tokenizer& tokenizer, Specials specials) {
  std::atomic<size_t> next{0};
  const auto run = [&](Encoder& encoder) {
    for (size_t i = next++; i < batch.size(); i = next++) {
      try {
        encode_one(batch[i], encoder, tokenizer, specials);
      } catch (...) {
        batch[i].error = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  const size_t wanted = std::min(encoders.size(), batch.size());
  for (size_t i = 1; i < wanted; ++i) threads.emplace_back(run, std::ref(encoders[i]));
  run(encoders[0]);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TokenizeProgress tokenize_documents(Storage& storage, const Tokenizer& tokenizer,
                                    const TokenizeOptions& options, const DocumentSink& sink) {
  const int threads = options.threads > 0
                          ? options.threads
                          : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  SXT_CHECK(threads <= kMostThreads, Usage, "tokenizing with ", threads, " threads: at most ",
            kMostThreads);
  std::vector<Encoder> encoders;
  for (int i = 0; i < threads; ++i) encoders.emplace_back(tokenizer);
  TokenizeProgress progress;
  progress.stored = stored_bytes(storage, options.inputs);
  std::vector<Work> batch;
  size_t batch_bytes = 0;
  const auto flush = [&] {
    if (batch.empty()) return;
    encode_batch(batch, encoders, tokenizer, options.specials);
    for (const Work& work : batch) {
      if (work.error) std::rethrow_exception(work.error);  // the first in input order
      sink(work.ids, work.mask);
      ++progress.documents;
      progress.tokens += static_cast<int64_t>(work.ids.size());
    }
    progress.bytes += static_cast<int64_t>(batch_bytes);
    batch.clear();
    batch_bytes = 0;
    if (options.on_progress) options.on_progress(progress);
  };
  int64_t taken_before = 0;  // of earlier files
  for (const std::string& input : options.inputs) {
    progress.file = input;
    DocumentReader reader(storage, input, options.split);
    while (std::optional<RawDocument> raw = reader.next()) {
      progress.taken = taken_before + reader.taken();
      batch_bytes += raw->text.size();
      batch.push_back({std::move(*raw), {}, {}, nullptr});
      if (batch_bytes >= kBatchBytes || batch.size() >= kBatchDocuments) flush();
    }
    taken_before += reader.taken();
  }
  flush();
  return progress;
}

LossMask needed_mask(Storage& storage, std::span<const std::string> inputs) {
  for (const std::string& input : inputs) {
    std::optional<RawDocument> first = DocumentReader(storage, input, TextSplit::Lines).next();
    if (first && first->is_json && parse_document(std::move(*first)).has_prompt)
      return LossMask::PerToken;
  }
  return LossMask::None;
}

TokenizeSummary tokenize_to_file(Storage& storage, const Tokenizer& tokenizer,
                                 const TokenizeOptions& options, const std::string& out) {
  SXT_CHECK(!options.inputs.empty(), Usage, "data tokenize: no input files");
  const LossMask mask = needed_mask(storage, options.inputs);
  TokenWriter writer(storage, out, tokenizer, mask);
  const TokenizeProgress done = tokenize_documents(
      storage, tokenizer, options,
      [&](std::span<const int32_t> ids, std::span<const uint8_t> document_mask) {
        SXT_CHECK(document_mask.empty() || mask == LossMask::PerToken, Data,
                  "a record with a prompt behind records with only text; put the two kinds in ",
                  "files of their own");
        writer.append(ids, document_mask);
      });
  SXT_CHECK(writer.tokens() > 0, Data, "data tokenize: the input files hold no text");
  writer.finish();
  return {writer.documents(), writer.tokens(), tokenizer.vocab(), done.bytes};
}

}  // namespace sextant
