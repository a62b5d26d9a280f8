#include "infer/sample.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace sextant {

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling) {
  SXT_CHECK(std::isfinite(sampling.temperature) && sampling.temperature >= 0, Usage,
            "temperature is ", sampling.temperature, ", must be 0 or more");
  SXT_CHECK(sampling.top_k >= 0, Usage, "top-k is ", sampling.top_k, ", must be 0 or more");
  SXT_CHECK(sampling.top_p > 0 && sampling.top_p <= 1, Usage, "top-p is ", sampling.top_p,
            ", must be above 0 and at most 1");
}

std::span<const Sampler::Candidate> Sampler::candidates(std::span<const float> logits) {
  candidates_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    SXT_CHECK(std::isfinite(logits[i]), Failure, "the logit of token ", i, " is ", logits[i],
              "; the weights of this model are broken");
    candidates_[i] = {static_cast<double>(logits[i]), static_cast<int32_t>(i)};
  }
  // Most likely first; ties by token, for a unique order.
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
  };
  size_t keep = candidates_.size();
  if (sampling_.temperature == 0)
    keep = 1;
  else if (sampling_.top_k > 0)
    keep = std::min(keep, static_cast<size_t>(sampling_.top_k));
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<int64_t>(keep),
                    candidates_.end(), before);
  candidates_.resize(keep);

  const double largest = candidates_[0].probability;
  double total = 0;
  for (Candidate& candidate : candidates_) {
    const double temperature = sampling_.temperature == 0 ? 1 : sampling_.temperature;
    candidate.probability = std::exp((candidate.probability - largest) / temperature);
    total += candidate.probability;
  }
  double sum = 0;
  size_t enough = 0;
  while (enough < candidates_.size() && (enough == 0 || sum < sampling_.top_p * total))
    sum += candidates_[enough++].probability;
  candidates_.resize(enough);
  for (Candidate& candidate : candidates_) candidate.probability /= sum;
  return candidates_;
}

int32_t Sampler::sample(std::span<const float> logits, uint64_t index) {
  const std::span<const Candidate> from = candidates(logits);
  double left = Random(sampling_.seed, "sample").uniform(index);
  for (const Candidate& candidate : from) {
    left -= candidate.probability;
    if (left <= 0) return candidate.token;
  }
  return from.back().token;
}

}  // namespace sextant
