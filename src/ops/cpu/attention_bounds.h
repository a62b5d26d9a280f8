#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "tensor/tensor.h"

namespace sextant::cpu {

// First or last keys that queries see, [batch, seq]: none may be smaller than the one before it in
// its row, or than 0, nor larger than most(token). Where one is, a copy is taken that keeps to
// this, so that kernels stay within their memory.
class Bounds {
 public:
  struct Bad {
    int64_t token, row, value, least;
  };

  template <class F>
  Bounds(const Tensor& bounds, int64_t batch, int64_t seq, F&& most)
      : given_(bounds.data<int32_t>()), seq_(seq) {
    for (int64_t row = 0; row < batch && !bad_; ++row) {
      int64_t least = 0;
      for (int64_t token = 0; token < seq && !bad_; ++token) {
        const int64_t value = given_[row * seq + token];
        if (value < least || value > most(token)) bad_ = {token, row, value, least};
        least = value;
      }
    }
    if (bad_) mend(batch, most);
  }

  const std::optional<Bad>& bad() const { return bad_; }  // the first
  const int32_t* row(int64_t row) const {
    return (mended_.empty() ? given_ : mended_.data()) + row * seq_;
  }

 private:
  template <class F>
  void mend(int64_t batch, F&& most) {
    mended_.assign(given_, given_ + batch * seq_);
    for (int64_t i = 0; i < batch * seq_; ++i) {
      const int32_t least = i % seq_ == 0 ? 0 : mended_[size_t(i - 1)];
      mended_[size_t(i)] =
          std::clamp(mended_[size_t(i)], least, static_cast<int32_t>(most(i % seq_)));
    }
  }

  const int32_t* given_;
  int64_t seq_;
  std::optional<Bad> bad_;
  std::vector<int32_t> mended_;
};

}  // namespace sextant::cpu
