#pragma once
// The inside of matmul: operands as pointers and strides, and the choice of micro-kernels.
#include <cstdint>

#include "ops/matmul.h"

namespace sextant::cpu {

// An operand seen as lines along m (for a) or n (for b), each k long.
//   element (line, k) = data[line * line_stride + k * k_stride] of dtype; one of the strides is 1
struct Operand {
  const std::byte* data = nullptr;
  DType dtype = DType::F32;
  int64_t line_stride = 0, k_stride = 0;
  // fp8: the amax of element (line, k) is amax[line / lines_of_block * line_blocks +
  // block of k * k_blocks], where lines_of_block = 0 means all.
  const float* amax = nullptr;
  int64_t lines_of_block = 0, line_blocks = 0, k_blocks = 0;

  float scale_of(int64_t line, int64_t k_block) const {
    const int64_t block = lines_of_block == 0 ? 0 : line / lines_of_block;
    return fp8_scale(amax[block * line_blocks + k_block * k_blocks], dtype);
  }
  template <class S>
  const S* at(int64_t line, int64_t k) const {
    return reinterpret_cast<const S*>(data) + line * line_stride + k * k_stride;
  }
};

// Epilogue as pointers to elements of the type `dtype`; all matrices are [m, n] with rows of n.
struct EpiloguePointers {
  Write write = Write::Replace;
  Activation activation = Activation::None;
  const std::byte* bias = nullptr;
  std::byte* pre_activation = nullptr;
  const std::byte* backward_of = nullptr;
  DType dtype = DType::F32;

  // Nothing to do to a finished sum but to put it in place.
  bool is_plain() const { return write != Write::Add && activation == Activation::None && !bias; }
};

// A product whose sums are made in T. The operands are of T or narrower; c is of T or of the type
// of the epilogue.
template <class T>
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  std::byte* c = nullptr;
  DType c_type = kDTypeOf<T>;
  Operand a, b;
  // Blocks of k with scales of their own in fp8 operands: elements of a block, and of a part after
  // which blocks begin anew (ScaleBlock). 0: none.
  int64_t k_of_block = 0, k_of_part = 0;
  EpiloguePointers epilogue;

  bool is_c_of_sums() const { return c_type == kDTypeOf<T>; }
};

// Memory that finishing a tile will touch: rows of some matrices, to be fetched while the sums are
// made.
struct Ahead {
  const std::byte* matrices[3];
  int64_t stride[3];  // bytes between rows
  int64_t width[3];   // bytes of a row of the tile
  int count;
};

// out[i, j] = in[i, j] + sum over k of a[k][i] * b[k][j], each a chain of fused multiply-adds in
// ascending k; in == nullptr means 0. k is counted in packed words (KernelSet::word_k).
//   a: [k][rows of the kernel set]  b: [k][columns]
template <class T>
using Kernel = void (*)(int64_t k, const T* a, const T* b, const T* in, int64_t in_stride, T* out,
                        int64_t out_stride, const Ahead& ahead);

// A tile of finished sums and its place in c. `sums` has room for whole vectors in each row.
template <class T>
struct Tile {
  const T* sums;
  int64_t stride;         // between rows of sums
  int64_t row, column;    // of its first element in c
  int64_t rows, columns;  // of it that exist in c
};

// Does to a tile what Epilogue says, in its order, and writes c.
template <class T>
using Finish = void (*)(const Gemm<T>& problem, const Tile<T>& tile);

// Adds a tile of sums over one block of k to the sums of the blocks before, element by element:
//   total = fma(row_scales[i] * column_scales[j], sums, total), or from 0 with `is_first`
template <class T>
using Promote = void (*)(T* total, const T* sums, const T* row_scales, const T* column_scales,
                         int64_t rows, bool is_first);

// Micro-kernels of one instruction set: for tiles of 1 ... rows by `columns`.
template <class T>
struct KernelSet {
  static constexpr int kMaxRows = 14, kMaxColumns = 32;
  int64_t rows, columns;
  int64_t k_block;  // the longest k that keeps a panel of b in the first-level cache, in words
  int64_t word_k;   // elements of k in a packed word: 1, an element as T, or 2, a pair of bf16
  Finish<T> finish;
  Promote<T> promote;
  Kernel<T> of_rows[kMaxRows + 1];
};

// The set for 256-bit vectors, the set for 512-bit vectors and the one for pairs of bf16 (nullptr
// where this machine or build has none), and the fastest here for operands of a type.
template <class T>
const KernelSet<T>& kernels_256();
template <class T>
const KernelSet<T>* kernels_512();
const KernelSet<float>* kernels_bf16();
template <class T>
const KernelSet<T>& best_kernels(DType operands);

template <class T>
void gemm(Stream& stream, const Gemm<T>& problem, const KernelSet<T>& kernels);

// matmul with a kernel set of one's choice; the bits are the same for all.
template <class T>
Gemm<T> describe(Tensor& c, const Tensor& a, Transpose transpose_a, const Tensor& b,
                 Transpose transpose_b, const Epilogue& epilogue);

}  // namespace sextant::cpu
