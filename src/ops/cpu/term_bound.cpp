#include "ops/term_bound.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/packs.h"

namespace sextant::cpu {

// Once a step in a check, so written to be read.
void term_bound(Stream&, Tensor& bound, const Tensor& dy, const Tensor& x, double factor) {
  with_float(dy.dtype(), [&]<class T>(T) {
    const int64_t rows = dy.rows(), columns = dy.dim(-1);
    const T* gradient = dy.data<T>();
    double largest_sum = 0, largest_x = 1;
    for (int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (int64_t row = 0; row < rows; ++row)
        sum += std::abs(static_cast<double>(value_of(gradient[row * columns + column])));
      largest_sum = std::max(largest_sum, sum);
    }
    if (x) {
      largest_x = 0;
      const T* values = x.data<T>();
      for (int64_t i = 0; i < x.elements(); ++i)
        largest_x = std::max(largest_x, std::abs(static_cast<double>(value_of(values[i]))));
    }
    bound.data<double>()[0] += factor * largest_sum * largest_x;
  });
}

}  // namespace sextant::cpu
