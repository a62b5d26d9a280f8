// Blocks as in Goto's method, with two differences. The smaller operand is packed whole, once, by
// all threads together; tiles of the larger one are packed by the thread that takes them, so no
// line of it is packed twice. And k runs inside a tile: partial sums between blocks of k wait in
// the thread's memory, as the floats they are, so that c is touched once and an element stays one
// chain of fused multiply-adds.
// Operands in fp8 with a scale per block of k are packed as they are; k then goes block by block,
// each a chain from 0, whose sum is scaled and added to that of the blocks before.
// Products of bf16 treat denormals as zeros, in operands and in sums, as the instruction for pairs
// of bf16 does: so their bits do not depend on whether the processor has it.
#include "ops/cpu/gemm.h"

#include <algorithm>
#include <array>

#include "ops/cpu/flush_denormals.h"
#include "ops/cpu/gemm_pack.h"
#include "tensor/convert.h"

namespace sextant::cpu {
namespace {

// Lines of a tile, at most. `kNarrow` lines of the larger operand and a cache block of the smaller
// one, each a block of k long, lie in the second-level cache (1 MiB) together.
constexpr int64_t kNarrow = 96;
constexpr int64_t kCacheBlock = 264;
constexpr int64_t kWide = 768;
constexpr int64_t kTilesPerThread = 6;  // so that the last tiles end together

template <class T>
constexpr int64_t kLineElements = 64 / sizeof(T);  // of a cache line

constexpr int64_t round_up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}
constexpr int64_t blocks_of(int64_t value, int64_t step) {
  return (value + step - 1) / step;
}

// The size of equal parts of `value`, none above `limit`, in steps.
constexpr int64_t even_part(int64_t value, int64_t limit, int64_t step) {
  const int64_t parts = std::max<int64_t>(1, blocks_of(value, limit));
  return round_up(std::max<int64_t>(1, blocks_of(value, parts)), step);
}

// How one product is cut. Sizes of tiles are whole panels.
struct Cut {
  int64_t tile_m, tile_n;
  int64_t cache_m;  // rows of a tile that are run through together
  int64_t k;        // in packed words, as the following
  int64_t k_block, k_blocks;
  int64_t k_part, blocks_of_part;  // blocks begin in each part of k
  enum class Shared { None, A, B } shared;
};

// Lines of a narrow tile: fewer than kNarrow where the larger operand is short.
int64_t narrow_tile(int64_t lines, int64_t panel, int threads) {
  const int64_t share = lines / (kTilesPerThread * threads) / panel * panel;
  return even_part(lines, std::clamp(share, panel, kNarrow), panel);
}

// Neither operand fits into the shared memory: tiles that pack both for themselves, as wide as the
// thread's memory allows (a and b each with a block of k, and the partial sums), but one for each
// thread at least. Narrower tiles read the operands from memory more often: at m = 256, n = 768,
// k = 50304 one of 768 columns is 8 % faster than two of 384.
template <class T>
Cut cut_private(const Gemm<T>& p, const KernelSet<T>& kernels, int threads) {
  constexpr int64_t kSize = sizeof(T);
  Cut cut;
  cut.shared = Cut::Shared::None;
  cut.k = blocks_of(p.k, kernels.word_k);
  cut.k_block = even_part(cut.k, 1024 / kSize, kLineElements<T>);
  cut.tile_m = even_part(p.m, kCacheBlock, kernels.rows);
  const int64_t per_row_of_tiles = blocks_of(threads, blocks_of(p.m, cut.tile_m));
  cut.tile_n = even_part(p.n, std::min(kWide * 4 / kSize, blocks_of(p.n, per_row_of_tiles)),
                         kernels.columns);
  return cut;
}

template <class T>
Cut make_cut(const Gemm<T>& p, const KernelSet<T>& kernels, int threads) {
  Cut cut;
  const bool a_is_smaller = p.m <= p.n;
  const int64_t lines = a_is_smaller ? round_up(p.m, kernels.rows) : round_up(p.n, kernels.columns);
  cut.k = blocks_of(p.k, kernels.word_k);
  cut.k_block = even_part(cut.k, kernels.k_block, kLineElements<T>);
  if (lines * cut.k * int64_t{sizeof(T)} > Stream::kSharedScratch) {
    cut = cut_private(p, kernels, threads);
  } else if (a_is_smaller) {
    cut.shared = Cut::Shared::A;
    cut.tile_m = even_part(p.m, kWide, kernels.rows);
    cut.tile_n = narrow_tile(p.n, kernels.columns, threads);
  } else {
    cut.shared = Cut::Shared::B;
    cut.tile_m = narrow_tile(p.m, kernels.rows, threads);
    cut.tile_n = even_part(p.n, kWide, kernels.columns);
  }
  cut.k_part = std::max<int64_t>(1, cut.k);
  if (p.k_of_block > 0) {
    cut.k_block = p.k_of_block;
    if (p.k_of_part > 0) cut.k_part = p.k_of_part;
  }
  cut.blocks_of_part = std::max<int64_t>(1, blocks_of(cut.k_part, cut.k_block));
  cut.k_blocks = cut.blocks_of_part * std::max<int64_t>(1, blocks_of(cut.k, cut.k_part));
  cut.cache_m = even_part(cut.tile_m, kCacheBlock, kernels.rows);
  return cut;
}

// One product on its way.
template <class T>
class Product {
 public:
  Product(Stream& stream, const Gemm<T>& problem, const KernelSet<T>& kernels)
      : stream_(stream),
        p_(problem),
        kernels_(kernels),
        cut_(make_cut(problem, kernels, stream.threads())) {}

  void run() {
    if (cut_.shared != Cut::Shared::None) pack_shared();
    const int64_t across = blocks_of(p_.n, cut_.tile_n), down = blocks_of(p_.m, cut_.tile_m);
    stream_.team().for_pieces(across * down, 1, [&](int64_t tile, int64_t, int thread) {
      const int64_t row = cut_.shared == Cut::Shared::A ? tile % down : tile / across;
      const int64_t column = cut_.shared == Cut::Shared::A ? tile / down : tile % across;
      compute_tile(row * cut_.tile_m, column * cut_.tile_n, thread);
    });
  }

 private:
  static constexpr int64_t kPackGrain = 4;  // panels

  bool shares_a() const { return cut_.shared == Cut::Shared::A; }
  bool has_block_scales() const { return p_.k_of_block > 0; }
  int64_t k_begin(int64_t block) const {
    const int64_t part = block / cut_.blocks_of_part * cut_.k_part;
    const int64_t within = std::min(block % cut_.blocks_of_part * cut_.k_block, cut_.k_part);
    return std::min(part + within, cut_.k);
  }

  // k0 and k: in words.
  void pack_words(T* out, const Operand& from, int64_t line, int64_t lines, int64_t k0, int64_t k,
                  int64_t width) const {
    if constexpr (std::is_same_v<T, float>)
      if (kernels_.word_k == 2)
        return pack_pairs(out, from, line, lines, {2 * k0, std::min(2 * (k0 + k), p_.k)}, width,
                          &from == &p_.a ? kNegativeZero : kZero);
    const bool is_scaled = is_fp8(from.dtype) && !has_block_scales();
    pack(out, from, line, lines, k0, k, width, is_scaled ? from.scale_of(line, 0) : 1);
  }

  T* shared() { return reinterpret_cast<T*>(stream_.shared_scratch().data()); }

  // Block after block of k, each all panels.
  void pack_shared() {
    const Operand& operand = shares_a() ? p_.a : p_.b;
    const int64_t lines = shares_a() ? p_.m : p_.n;
    const int64_t width = shares_a() ? kernels_.rows : kernels_.columns;
    const int64_t padded = round_up(lines, width), panels = padded / width;
    const int64_t groups = blocks_of(panels, kPackGrain);
    stream_.team().for_pieces(groups * cut_.k_blocks, 1, [&](int64_t piece, int64_t, int) {
      const int64_t block = piece / groups, line = piece % groups * kPackGrain * width;
      const int64_t k0 = k_begin(block), k = k_begin(block + 1) - k0;
      pack_words(shared() + k0 * padded + line * k, operand, line,
                 std::min(kPackGrain * width, lines - line), k0, k, width);
    });
  }

  void compute_tile(int64_t row, int64_t column, int thread) {
    const int64_t rows = std::min(cut_.tile_m, p_.m - row);
    const int64_t columns = std::min(cut_.tile_n, p_.n - column);
    T* scratch = reinterpret_cast<T*>(stream_.thread_scratch(thread).data());
    T* own_a = scratch;
    T* own_b = own_a + (shares_a() ? 0 : cut_.tile_m * cut_.k_block);
    T* partial = own_b + (cut_.shared == Cut::Shared::B ? 0 : cut_.tile_n * cut_.k_block);
    const int64_t partials =
        cut_.k_blocks > 1 || has_block_scales() ? cut_.tile_m * cut_.tile_n : 0;
    SXT_CHECK((partial + partials - scratch) * int64_t{sizeof(T)} <= Stream::kThreadScratch,
              Internal, "gemm: a tile of ", cut_.tile_m, " x ", cut_.tile_n,
              " does not fit into the memory of a thread");
    for (int64_t block = 0; block < cut_.k_blocks; ++block) {
      const int64_t k0 = k_begin(block), k = k_begin(block + 1) - k0;
      const T* a = own_a;
      const T* b = own_b;
      if (shares_a())
        a = shared() + k0 * round_up(p_.m, kernels_.rows) + row * k;
      else
        pack_words(own_a, p_.a, row, rows, k0, k, kernels_.rows);
      if (cut_.shared == Cut::Shared::B)
        b = shared() + k0 * round_up(p_.n, kernels_.columns) + column * k;
      else
        pack_words(own_b, p_.b, column, columns, k0, k, kernels_.columns);
      multiply_block({row, column, rows, columns, k, block, a, b, partial, nullptr, nullptr});
    }
  }

  struct Block {
    int64_t row, column, rows, columns, k, index;
    const T *a, *b;
    T* partial;
    const T *row_scales, *column_scales;  // of the tile, with block scales
  };

  void multiply_block(Block block) {
    std::array<T, kWide> row_scales, column_scales;
    if (has_block_scales()) {
      column_scales.fill(0);  // of columns that fill up a panel
      for (int64_t i = 0; i < block.rows; ++i)
        row_scales[static_cast<size_t>(i)] = p_.a.scale_of(block.row + i, block.index);
      for (int64_t j = 0; j < block.columns; ++j)
        column_scales[static_cast<size_t>(j)] = p_.b.scale_of(block.column + j, block.index);
      block.row_scales = row_scales.data();
      block.column_scales = column_scales.data();
    }
    for (int64_t i0 = 0; i0 < block.rows; i0 += cut_.cache_m)
      for (int64_t j = 0; j < block.columns; j += kernels_.columns)
        for (int64_t i = i0; i < std::min(i0 + cut_.cache_m, block.rows); i += kernels_.rows)
          has_block_scales() ? multiply_scaled_panels(block, i, j) : multiply_panels(block, i, j);
  }

  // What finishing the tile at (row, column) of c will touch.
  Ahead look_ahead(int64_t row, int64_t column) const {
    Ahead ahead{};
    const auto add = [&](const std::byte* matrix, DType dtype) {
      if (matrix == nullptr) return;
      const int64_t size = size_of(dtype);
      ahead.matrices[ahead.count] = matrix + (row * p_.n + column) * size;
      ahead.stride[ahead.count] = p_.n * size;
      ahead.width[ahead.count++] = kernels_.columns * size;
    };
    add(p_.c, p_.c_type);
    add(p_.epilogue.pre_activation, p_.epilogue.dtype);
    add(p_.epilogue.backward_of, p_.epilogue.dtype);
    return ahead;
  }

  // A tile of c as numbers to go on from.
  void read_c(T* to, int64_t row, int64_t column, int64_t rows, int64_t columns) const {
    for (int64_t r = 0; r < rows; ++r)
      convert(kDTypeOf<T>, reinterpret_cast<std::byte*>(to + r * kernels_.columns), p_.c_type,
              p_.c + ((row + r) * p_.n + column) * size_of(p_.c_type), columns);
  }

  // Where the partial sums of the tile at (i, j) of a block wait: tile after tile.
  T* partial_of(const Block& block, int64_t i, int64_t j) const {
    const int64_t tiles_across = cut_.tile_n / kernels_.columns;
    return block.partial + (i / kernels_.rows * tiles_across + j / kernels_.columns) *
                               kernels_.rows * kernels_.columns;
  }

  // The same as multiply_panels where the block has scales of its own.
  void multiply_scaled_panels(const Block& block, int64_t i, int64_t j) {
    const int64_t rows = std::min(kernels_.rows, block.rows - i);
    const int64_t columns = std::min(kernels_.columns, block.columns - j);
    const bool last = block.index == cut_.k_blocks - 1;
    T* total = partial_of(block, i, j);
    alignas(64) T sums[KernelSet<T>::kMaxRows * KernelSet<T>::kMaxColumns];
    const int64_t row = block.row + i, column = block.column + j;
    kernels_.of_rows[rows](block.k, block.a + i * block.k, block.b + j * block.k, nullptr, 0, sums,
                           kernels_.columns, last ? look_ahead(row, column) : Ahead{});
    kernels_.promote(total, sums, block.row_scales + i, block.column_scales + j, rows,
                     block.index == 0);
    if (last) kernels_.finish(p_, Tile<T>{total, kernels_.columns, row, column, rows, columns});
  }

  // One panel of a with one of b: the tile of c at (i, j) of the block.
  void multiply_panels(const Block& block, int64_t i, int64_t j) {
    const int64_t rows = std::min(kernels_.rows, block.rows - i);
    const int64_t columns = std::min(kernels_.columns, block.columns - j);
    const bool first = block.index == 0, last = block.index == cut_.k_blocks - 1;
    T* partial = partial_of(block, i, j);
    alignas(64) T finished[KernelSet<T>::kMaxRows * KernelSet<T>::kMaxColumns];
    const int64_t row = block.row + i, column = block.column + j;
    // Where the kernel may read and write c itself.
    T* c = columns == kernels_.columns && p_.is_c_of_sums()
               ? reinterpret_cast<T*>(p_.c) + row * p_.n + column
               : nullptr;
    const T* in = partial;
    int64_t in_stride = kernels_.columns;
    if (first && p_.epilogue.write != Write::Chain) {
      in = nullptr;
    } else if (first && c != nullptr) {
      in = c;
      in_stride = p_.n;
    } else if (first) {
      read_c(finished, row, column, rows, columns);
      in = finished;
    }
    T* out = partial;
    int64_t out_stride = kernels_.columns;
    const bool straight = last && c != nullptr && p_.epilogue.is_plain();
    if (straight) {
      out = c;
      out_stride = p_.n;
    } else if (last) {
      out = finished;
    }
    const Ahead ahead = last ? look_ahead(row, column) : Ahead{};
    {
      const FlushDenormals flush(p_.a.dtype == DType::BF16 && kernels_.word_k == 1);
      kernels_.of_rows[rows](block.k, block.a + i * block.k, block.b + j * block.k, in, in_stride,
                             out, out_stride, ahead);
    }
    if (last && !straight)
      kernels_.finish(p_, Tile<T>{finished, kernels_.columns, row, column, rows, columns});
  }

  Stream& stream_;
  const Gemm<T>& p_;
  const KernelSet<T>& kernels_;
  const Cut cut_;
};

}  // namespace

template <class T>
void gemm(Stream& stream, const Gemm<T>& problem, const KernelSet<T>& kernels) {
  if (problem.m > 0 && problem.n > 0) Product<T>(stream, problem, kernels).run();
}

template void gemm(Stream&, const Gemm<float>&, const KernelSet<float>&);
template void gemm(Stream&, const Gemm<double>&, const KernelSet<double>&);

}  // namespace sextant::cpu
