#pragma once
#include "ops/matmul.h"
#include "ops/quantize_turned.h"
#include "parallel/amax_ranks.h"
#include "parallel/delayed_scales.h"

namespace sextant {

// An operand of a linear layer in two slots of the owner: its values, and in fp8 the largest
// absolute values of its blocks.
struct OperandSlots {
  Tensor& values;
  Tensor& amax;
  // Of an operand that Fp8Operands turns: what quantising makes of the values. It frees
  // backward_of, if that is given, once it is read.
  Activation activation = Activation::None;
  Tensor* backward_of = nullptr;
  // Whether the weight gradient will find its form in the slots; else they are left empty.
  enum class Kept : uint8_t { Yes, No };
  Kept kept = Kept::Yes;
  // Of an output gradient that is turned: the sums that the gradient of a bias is made of.
  Tensor* sums = nullptr;
};

// An operand of a product: its numbers, and in fp8 the blocks that they are scaled by.
struct Operand {
  Tensor values = {}, amax = {};
  ScaleBlock block = {};
  bool is_turned = false;  // values and amax are transposed
  Tensor sums = {};        // of turned tiles, or empty

  // Some of its rows; where blocks have several rows, whole parts. `piece`: these rows.
  Operand rows(const Range& range) const { return rows(values.slice(range), range); }
  Operand rows(const Tensor& piece, const Range& range) const;
};

// The rows of a micro-batch that a rank's experts compute, in the order of the experts.
struct ExpertRows {
  const Tensor& offsets;  // as in grouped_linear
  int64_t room = 0;       // rows that memory is reserved for, whatever the routing
};

// How operands of linear layers become fp8. With the recipes Tensor and Delayed an operand has one
// scale, the same on all ranks that hold parts of it, and one form: E4M3, output gradients E5M2.
// With Block an operand has tiles of 128 along the dimension that its product sums over, hence one
// form for the product with the weight (tiles of 1 x 128) and one for the weight gradient (128 x
// 1), and weights have blocks of 128 x 128; all E4M3. Tiles begin at the rank's own rows and
// columns. A weight becomes fp8 once a step: ZeRO-3 gathers it so, otherwise its first product
// leaves it in Param::quantized for the others. Each expert has scales of its own: of its rows here
// and of its weight, or its part of that. Ranks agree on those of ZeRO-3's shards only.
//
// Products on a GPU take numbers along the dimension they sum over. There one reading of x makes
// both forms, and that for the weight gradient is transposed: [columns, tokens], in as many bytes.
// Not where sequence parallel ranks gather tokens, and not with odd sizes: then products transpose.
class Fp8Operands {
 public:
  enum class Turns : uint8_t { Never, WhereSizesAllow };

  // `delayed`: of the recipe Delayed. Both must outlive it.
  Fp8Operands(Fp8Recipe recipe, const AmaxRanks& ranks, const DelayedScales& delayed, Turns turns)
      : recipe_(recipe), ranks_(&ranks), delayed_(&delayed), turns_(turns) {}

  bool has_blocks() const { return recipe_ == Fp8Recipe::Block; }
  // Whether x, or what it was before it was turned, is turned for the weight gradient.
  bool turns(const Tensor& x) const;
  bool turns(const Shape& shape) const;  // of a tensor with memory of its own

  // Both operands of a product with the weight. The slots of x hold its form for the weight
  // gradient from here on, with blocks of tokens that begin in each part of `part_rows`.
  struct Pair {
    Operand x, weight;
  };
  Pair quantize(Stream& stream, OperandSlots x, OperandKind kind, Param& weight,
                int64_t part_rows = 0) const;

  // With blocks, or of experts: a weight. With blocks only: x for the product with it, which stays
  // as it is; x for the weight gradient, in its slots.
  Operand weight(Stream& stream, Param& weight) const;
  Operand for_product(Stream& stream, const Tensor& x) const;
  void for_weight_gradient(Stream& stream, OperandSlots x, int64_t part_rows = 0) const;
  // What is in such slots.
  Operand of_weight_gradient(const OperandSlots& x, int64_t part_rows) const;

  // For recomputation: the form for the weight gradient as forward made it; the same with the
  // largest values that forward found.
  void quantize_input(Stream& stream, OperandSlots x, const Param& weight) const;
  void requantize(Stream& stream, OperandSlots x) const;

  // The same for the rows of experts.
  Pair quantize_rows(Stream& stream, OperandSlots x, OperandKind kind, Param& weight,
                     const ExpertRows& rows) const;
  Operand rows_of_weight_gradient(const OperandSlots& x) const;
  void requantize_rows(Stream& stream, OperandSlots x, const ExpertRows& rows) const;

 private:
  Operand scaled_by(const Operand& weight, const Tensor& amax) const;
  enum class Rows : uint8_t { Made, Skipped };
  Operand turn(Stream& stream, OperandSlots x, OperandKind kind, Rows rows,
               const DelayedAmax& delayed = {}) const;
  Operand turn_tiles(Stream& stream, OperandSlots x, Rows rows) const;
  void find_amax(Stream& stream, Tensor& amax, const Tensor& x, OperandKind kind,
                 const Param& weight, const Activated& activated = {}) const;
  DelayedAmax find_amax_later(const Tensor& x, OperandKind kind, const Param& weight) const;
  bool must_agree() const { return recipe_ == Fp8Recipe::Tensor || delayed_->is_first(); }

  Fp8Recipe recipe_;
  const AmaxRanks* ranks_;
  const DelayedScales* delayed_;
  Turns turns_;
};

}  // namespace sextant
