#include "infer/generate.h"

#include <algorithm>

#include "tensor/copy.h"

namespace sextant {
namespace {

// A model with a KV cache for one row.
class Reader {
 public:
  explicit Reader(SerialModel& model)
      : model_(model),
        cache_(model.transformer().make_cache(model.stream(), 1, model.blueprint().model.seq)),
        logits_(static_cast<size_t>(model.blueprint().padded_vocab)) {}

  int64_t room() const { return model_.blueprint().model.seq - cache_.past; }
  void forget() { cache_.past = 0; }

  // Appends tokens to the cache; returns the logits of the next token.
  std::span<const float> read(std::span<const int32_t> tokens) {
    fill_row(host_, tokens, cache_.past);
    const Tensor logits =
        model_.executor().forward(host_, {.output = HeadOutput::LastLogits, .cache = &cache_});
    copy_floats_to_host(model_.stream(), logits_, logits);
    cache_.past += host_.seq;
    return std::span(logits_).first(static_cast<size_t>(model_.blueprint().model.vocab));
  }

 private:
  SerialModel& model_;
  KvCache cache_;
  HostBatch host_;
  std::vector<float> logits_;
};

}  // namespace

std::vector<int32_t> generate(SerialModel& model, std::span<const int32_t> prompt,
                              const GenerateOptions& options,
                              const std::function<bool(int32_t)>& emit) {
  SXT_CHECK(!prompt.empty(), Usage, "the prompt is empty; give at least one token");
  const int64_t vocab = model.blueprint().model.vocab;
  for (const int32_t token : prompt)
    SXT_CHECK(token >= 0 && token < vocab, Data, "token ", token,
              " of the prompt: the model has ids from 0 to ", vocab - 1);
  const int64_t seq = model.blueprint().model.seq;
  const auto half = static_cast<size_t>(std::max<int64_t>(1, seq / 2));
  std::vector<int32_t> text(prompt.begin(), prompt.end());
  std::vector<int32_t> made;
  Sampler sampler(options.sampling);
  Reader reader(model);
  std::span<const int32_t> unread = text;
  if (unread.size() > static_cast<size_t>(seq)) unread = unread.last(half);
  while (static_cast<int64_t>(made.size()) < options.tokens) {
    if (reader.room() < static_cast<int64_t>(unread.size())) {
      reader.forget();
      unread = std::span<const int32_t>(text).last(std::min(half, text.size()));
    }
    const int32_t next = sampler.sample(reader.read(unread), made.size());
    if (std::ranges::find(options.stop_tokens, next) != options.stop_tokens.end()) break;
    made.push_back(next);
    text.push_back(next);
    unread = std::span<const int32_t>(text).last(1);
    if (!emit(next)) break;
  }
  return made;
}

}  // namespace sextant
