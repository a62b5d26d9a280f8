#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

struct Sampling {
  double temperature = 1;  // 0 takes the most likely token
  int64_t top_k = 0;       // keep only the k most likely; 0 means all
  double top_p = 1;        // keep the fewest tokens whose probability reaches this
  uint64_t seed = 0;
};

// Samples tokens; draw `index` of a seed is always the same for the same logits. Error(Failure) for
// non-finite logits.
class Sampler {
 public:
  explicit Sampler(const Sampling& sampling);

  int32_t sample(std::span<const float> logits, uint64_t index);
  // Tokens left after temperature, top-k and top-p: (probability, token), most likely first.
  struct Candidate {
    double probability;
    int32_t token;
  };
  std::span<const Candidate> candidates(std::span<const float> logits);

 private:
  Sampling sampling_;
  std::vector<Candidate> candidates_;
};

}  // namespace sextant
