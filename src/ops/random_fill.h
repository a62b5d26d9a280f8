#pragma once
#include <cstdint>
#include <string_view>

#include "ops/dispatch.h"

namespace sextant {

// y[i] = std * normal draw number first_element + i of (seed, name): a slice of a tensor gets the
// values the whole would. Drawn in double, then rounded.
void fill_normal(Stream& stream, Tensor& y, uint64_t seed, std::string_view name, double std,
                 int64_t first_element);

// A part of a matrix of whole_columns: element (row, column) of y gets the bits that the whole has
// at (first_row + row, first_column + column) when fill_normal fills it from element 0.
//   y: [rows, columns]
struct MatrixBlock {
  int64_t first_row = 0, first_column = 0, whole_columns = 0;
};
void fill_normal_block(Stream& stream, Tensor& y, uint64_t seed, std::string_view name, double std,
                       const MatrixBlock& block);

void fill_constant(Stream& stream, Tensor& y, double value);

}  // namespace sextant
