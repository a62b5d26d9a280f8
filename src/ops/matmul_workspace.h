#pragma once
#include "ops/matmul.h"

namespace sextant {

// How the library is told the scales of an fp8 operand, f32.
//   None    not at all
//   One     one for all
//   Tiles   of 1 x 128 along k: [tiles of k, lines]
//   Blocks  of 128 x 128: [blocks of lines, blocks of k rounded up to a multiple of 4]
enum class Fp8Scales : uint8_t { None, One, Tiles, Blocks };

// What a product of fp8 on a GPU needs besides its operands: the library wants both with their
// numbers along k next to each other, and scales in its own order. Of shapes alone, so that a dry
// run without a GPU knows it.
struct Fp8Workspace {
  struct Side {
    Fp8Scales scales = Fp8Scales::None;
    int64_t lines = 0, scale_lines = 0, k_tiles = 0;
    int64_t copied_at = 0, copied_bytes = 0;  // a transposed copy; 0 bytes: none
    int64_t scales_at = 0, scales_bytes = 0;
  };
  int64_t m = 0, n = 0, k = 0;
  Side a, b;
  bool is_library = false;  // whether the library takes the shapes and scales; else 0 bytes
  int64_t bytes = 0;
};

Fp8Workspace fp8_workspace(const Tensor& a, Transpose transpose_a, const Tensor& b,
                           Transpose transpose_b, const Epilogue& epilogue);

}  // namespace sextant
