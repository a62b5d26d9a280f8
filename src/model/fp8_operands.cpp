#include "model/fp8_operands.h"

#include "base/error.h"
#include "parallel/activation.h"

namespace sextant {
namespace {

constexpr ScaleBlock kTile{1, kScaleBlock}, kColumnTile{kScaleBlock, 1};

Tensor to_fp8(Stream& stream, DType dtype, const Tensor& x, const Tensor& amax,
              const ScaleBlock& block) {
  Tensor q = allocate_activation(stream, dtype, x.shape());
  quantize(stream, q, x, amax, block);
  return q;
}

// Scales of the values themselves.
Operand in_blocks(Stream& stream, const Tensor& x, const ScaleBlock& block) {
  Tensor amax = allocate_activation(stream, DType::F32, block.grid(x.shape()));
  block_amax(stream, amax, x, block);
  return {to_fp8(stream, DType::F8E4M3, x, amax, block), amax, block};
}

DType type_of(OperandKind kind) {
  return kind == OperandKind::Gradient ? DType::F8E5M2 : DType::F8E4M3;
}

}  // namespace

Operand Operand::rows(const Tensor& piece, const Range& range) const {
  Operand out{piece, amax, block};
  if (block.rows > 0)
    out.amax = amax.slice(block.row_of(range.begin), block.row_of(range.end - 1) + 1);
  return out;
}

// With delayed scaling the one of the step before takes its place.
void Fp8Operands::find_amax(Stream& stream, Tensor& amax, const Tensor& x, OperandKind kind,
                            const Param& weight) const {
  block_amax(stream, amax, x, {});
  if (recipe_ == Fp8Recipe::Delayed) delayed_->take(stream, amax, weight, kind);
}

// A bug, for tests: the weight with scales of the other operand.
Operand Fp8Operands::scaled_by(const Operand& weight, const Tensor& amax) const {
  if (!ranks_->is_injected(InjectionKind::WrongScale)) return weight;
  const int64_t count = weight.amax.elements();
  SXT_CHECK(count <= amax.elements(), Config, "fault.inject = wrong_scale: an operand with ",
            amax.elements(), " scales has too few for a weight with ", count);
  const Tensor wrong = amax.view(Shape{amax.elements()}).slice(0, count);
  return {weight.values, wrong.view(weight.amax.shape()), weight.block};
}

// One all-reduce agrees on both scales.
Fp8Operands::Pair Fp8Operands::quantize(Stream& stream, OperandSlots x, OperandKind kind,
                                        const Param& weight, int64_t part_rows) const {
  if (has_blocks()) {
    const Operand rows = for_product(stream, x.values);
    for_weight_gradient(stream, x, part_rows);
    return {rows, scaled_by(this->weight(stream, weight), rows.amax)};
  }
  const bool is_gathered = is_fp8(weight.value.dtype());  // ZeRO-3 did it
  Tensor both = allocate_activation(stream, DType::F32, {is_gathered ? 1 : 2, 1});
  Tensor of_x = both.slice(0, 1);
  find_amax(stream, of_x, x.values, kind, weight);
  Operand of_weight{weight.value, weight.amax};
  if (!is_gathered) {
    of_weight.amax = both.slice(1, 2);
    find_amax(stream, of_weight.amax, weight.value, OperandKind::Weight, weight);
  }
  if (must_agree()) ranks_->agree(stream, both);
  x.values = to_fp8(stream, type_of(kind), x.values, of_x, {});
  x.amax = of_x;
  if (!is_gathered)
    of_weight.values = to_fp8(stream, DType::F8E4M3, weight.value, of_weight.amax, {});
  return {{x.values, x.amax}, scaled_by(of_weight, of_x)};
}

Operand Fp8Operands::weight(Stream& stream, const Param& weight) const {
  if (is_fp8(weight.value.dtype())) return {weight.value, weight.amax, kWeightBlock};
  return in_blocks(stream, weight.value, kWeightBlock);
}

Operand Fp8Operands::for_product(Stream& stream, const Tensor& x) const {
  return in_blocks(stream, x, kTile);
}

void Fp8Operands::for_weight_gradient(Stream& stream, OperandSlots x, int64_t part_rows) const {
  const Operand columns = in_blocks(stream, x.values, {kScaleBlock, 1, part_rows});
  x.values = columns.values;
  x.amax = columns.amax;
}

Operand Fp8Operands::of_weight_gradient(const OperandSlots& x, int64_t part_rows) const {
  Operand out{x.values, x.amax};
  if (has_blocks()) out.block = {kScaleBlock, 1, part_rows};
  return out;
}

void Fp8Operands::quantize_input(Stream& stream, OperandSlots x, const Param& weight) const {
  if (has_blocks()) return for_weight_gradient(stream, x);
  x.amax = allocate_activation(stream, DType::F32, {1, 1});
  find_amax(stream, x.amax, x.values, OperandKind::Input, weight);
  if (must_agree()) ranks_->agree(stream, x.amax);
  requantize(stream, x);
}

void Fp8Operands::requantize(Stream& stream, OperandSlots x) const {
  x.values =
      to_fp8(stream, DType::F8E4M3, x.values, x.amax, has_blocks() ? kColumnTile : ScaleBlock{});
}

}  // namespace sextant
