#pragma once
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace sextant::cpu {

// While it lives, and if it is asked for, this thread's arithmetic reads denormal numbers as zeros
// and writes zeros for them.
#if defined(__SSE__)
class FlushDenormals {
 public:
  explicit FlushDenormals(bool asked) : asked_(asked) {
    if (!asked_) return;
    before_ = _mm_getcsr();
    _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZeros);
  }
  ~FlushDenormals() {
    if (asked_) _mm_setcsr(before_);
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZeros = 0x0040;
  bool asked_;
  unsigned before_ = 0;
};
#else
class FlushDenormals {
 public:
  explicit FlushDenormals(bool) {}
};
#endif

}  // namespace sextant::cpu
