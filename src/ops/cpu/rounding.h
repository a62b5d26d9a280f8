#pragma once
// Stochastic rounding in optimizer steps.
#include <algorithm>

#include "ops/cpu/packs.h"
#include "ops/cpu/philox.h"

namespace sextant::cpu {

// Which tensor of a parameter is rounded: each has draws of its own.
enum class RoundedTensor : uint8_t { Weight, FirstMoment, SecondMoment };

// The draws of one tensor in one step: word e % 4 of counter (high and low word of e / 4, step, 0),
// e the element in the whole parameter.
struct RoundingDraws {
  RoundingDraws(uint64_t seed, uint64_t name, RoundedTensor tensor, uint32_t step)
      : key{static_cast<uint32_t>(seed) ^ static_cast<uint32_t>(seed >> 32),
            static_cast<uint32_t>(name) + static_cast<uint32_t>(tensor) * 0x9E3779B9u},
        step(step) {}

  PhiloxKey key;
  uint32_t step;
};

// The draws of elements [begin, end) of a slice, at most kMost, which are neighbours from `element`
// of the whole on; none unless `is_drawn`.
class RoundingWords {
 public:
  static constexpr int64_t kMost = 256;

  RoundingWords(const RoundingDraws& draws, int64_t element, int64_t begin, int64_t end,
                bool is_drawn)
      : is_drawn_(is_drawn) {
    if (!is_drawn) return;
    const int64_t skip = element % 4;
    for (int64_t i = 0; i < skip + end - begin; i += kPhiloxWords) {
      const auto counter = static_cast<uint64_t>((element - skip + i) / 4);
      philox_four(words_ + i, static_cast<uint32_t>(counter >> 32), static_cast<uint32_t>(counter),
                  draws.step, draws.key);
    }
    shift_ = skip - begin;
  }

  // Stores a pack, rounded by the draws, or to nearest if there are none.
  template <class At, class T>
  void put(const At& at, T* to, VectorOf<T> pack) const {
    if constexpr (kIsNarrow<T>) {
      if (is_drawn_) {
        const uint32_t* words = words_ + shift_ + at.index;
        for (int64_t lane = 0; lane < at.lanes(); ++lane)
          to[at.index + lane] = round_stochastic<T>(pack[lane], words[lane]);
        return;
      }
    }
    at.put(to, pack);
  }

 private:
  bool is_drawn_;
  int64_t shift_ = 0;
  uint32_t words_[kMost + 2 * kPhiloxWords];
};

}  // namespace sextant::cpu
