#include "ops/cpu/gemm_pack.h"

#include <algorithm>

namespace sextant::cpu {

template <class T>
void pack(T* out, const Operand<T>& from, int64_t first_line, int64_t lines, int64_t first_k,
          int64_t k, int64_t width) {
  for (int64_t line = 0; line < lines; line += width, out += k * width) {
    const int64_t count = std::min(width, lines - line);
    for (int64_t p = 0; p < k; ++p) {
      const T* source = from.at(first_line + line, first_k + p);
      for (int64_t i = 0; i < count; ++i) out[p * width + i] = source[i * from.line_stride];
      for (int64_t i = count; i < width; ++i) out[p * width + i] = 0;
    }
  }
}

template void pack(float*, const Operand<float>&, int64_t, int64_t, int64_t, int64_t, int64_t);
template void pack(double*, const Operand<double>&, int64_t, int64_t, int64_t, int64_t, int64_t);

}  // namespace sextant::cpu
