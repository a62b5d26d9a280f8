#include "model/fp8_operands.h"

#include "base/error.h"
#include "ops/grouped_quantize.h"
#include "parallel/activation.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

constexpr ScaleBlock kTile{1, kScaleBlock}, kColumnTile{kScaleBlock, 1};

Activated activated_of(const OperandSlots& x) {
  return {x.activation, x.backward_of != nullptr ? *x.backward_of : Tensor()};
}

// Also allocates the sums, where they are wanted.
Turning turning_of(Stream& stream, const OperandSlots& x, const DelayedAmax& delayed = {}) {
  if (x.sums != nullptr)
    *x.sums =
        allocate_activation(stream, DType::F32, {turned_tiles(x.values.dim(0)), x.values.dim(1)});
  return {delayed, activated_of(x), x.sums != nullptr ? *x.sums : Tensor()};
}

Tensor allocate_weight(Stream& stream, DType dtype, const Shape& shape) {
  return stream.arena().allocate(Category::Weights, dtype, shape);
}

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

// Memory for [rows.room, columns of x], of which the rows of x are used.
Tensor with_room(Stream& stream, DType dtype, const Tensor& x, int64_t columns,
                 const ExpertRows& rows) {
  return allocate_activation(stream, dtype, {rows.room, columns}).slice(0, x.dim(0));
}

// Scales of the rows of experts, and the rows with them. `amax` has room for all tiles.
Tensor grouped_scales(Stream& stream, const Tensor& x, const ScaleBlock& block,
                      const ExpertRows& rows) {
  const int64_t experts = rows.offsets.dim(0) - 1;
  const Shape all = grouped_grid({rows.room, x.dim(1)}, experts, block);
  return allocate_activation(stream, DType::F32, all)
      .slice(0, grouped_grid(x.shape(), experts, block)[0]);
}

Tensor grouped_to_fp8(Stream& stream, DType dtype, const Tensor& x, const Tensor& amax,
                      const ScaleBlock& block, const ExpertRows& rows) {
  Tensor q = with_room(stream, dtype, x, x.dim(1), rows);
  grouped_quantize(stream, q, x, amax, rows.offsets, block);
  return q;
}

}  // namespace

Operand Operand::rows(const Tensor& piece, const Range& range) const {
  Operand out{piece, amax, block};
  if (block.rows > 0)
    out.amax = amax.slice(block.row_of(range.begin), block.row_of(range.end - 1) + 1);
  return out;
}

// A weight may lie behind others at any place.
bool Fp8Operands::turns(const Tensor& x) const {
  return turns(x.shape()) && reinterpret_cast<uintptr_t>(x.raw()) % 16 == 0;
}

bool Fp8Operands::turns(const Shape& shape) const {
  return turns_ == Turns::WhereSizesAllow && shape.elements() > 0 &&
         shape[0] % kTurnedMultiple == 0 && shape[1] % kTurnedMultiple == 0;
}

// Leaves x turned, if that is kept, and returns its rows, if they are wanted.
Operand Fp8Operands::turn(Stream& stream, OperandSlots x, OperandKind kind, Rows rows,
                          const DelayedAmax& delayed) const {
  const Shape shape = x.values.shape();
  Operand out{.amax = x.amax};
  Tensor turned;
  if (x.kept == OperandSlots::Kept::Yes)
    turned = allocate_activation(stream, type_of(kind), {shape[1], shape[0]});
  if (rows == Rows::Made) out.values = allocate_activation(stream, type_of(kind), shape);
  quantize_turned(stream, out.values, turned, x.amax, x.values, turning_of(stream, x, delayed));
  x.values = turned;
  if (x.backward_of != nullptr) *x.backward_of = Tensor();
  return out;
}

Operand Fp8Operands::turn_tiles(Stream& stream, OperandSlots x, Rows rows) const {
  const Shape shape = x.values.shape(), turned_shape{shape[1], shape[0]};
  Operand out{.block = kTile};
  Tensor turned, turned_amax;
  if (x.kept == OperandSlots::Kept::Yes) {
    turned = allocate_activation(stream, DType::F8E4M3, turned_shape);
    turned_amax = allocate_activation(stream, DType::F32, kTile.grid(turned_shape));
  }
  if (rows == Rows::Made) {
    out.values = allocate_activation(stream, DType::F8E4M3, shape);
    out.amax = allocate_activation(stream, DType::F32, kTile.grid(shape));
  }
  quantize_turned_tiles(stream, out.values, out.amax, turned, turned_amax, x.values,
                        turning_of(stream, x));
  x.values = turned;
  x.amax = turned_amax;
  if (x.backward_of != nullptr) *x.backward_of = Tensor();
  return out;
}

// With delayed scaling the one of the step before takes its place.
void Fp8Operands::find_amax(Stream& stream, Tensor& amax, const Tensor& x, OperandKind kind,
                            const Param& weight, const Activated& activated) const {
  if (activated.activation == Activation::None)
    block_amax(stream, amax, x, {});
  else
    activated_amax(stream, amax, x, activated);
  if (recipe_ == Fp8Recipe::Delayed) delayed_->take(stream, amax, weight, kind);
}

// Where turning x finds its largest value, and the one of the step before is what it needs.
DelayedAmax Fp8Operands::find_amax_later(const Tensor& x, OperandKind kind,
                                         const Param& weight) const {
  if (!turns(x) || must_agree()) return {};
  return {delayed_->used(weight, kind), delayed_->found(weight, kind)};
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

// One all-reduce agrees on both scales. What is kept of the weight serves the step's other
// products.
Fp8Operands::Pair Fp8Operands::quantize(Stream& stream, OperandSlots x, OperandKind kind,
                                        Param& weight, int64_t part_rows) const {
  const bool is_turned = turns(x.values);
  if (has_blocks()) {
    Operand rows;
    if (is_turned) {
      rows = turn_tiles(stream, x, Rows::Made);
    } else {
      rows = for_product(stream, x.values);
      for_weight_gradient(stream, x, part_rows);
    }
    return {rows, scaled_by(this->weight(stream, weight), rows.amax)};
  }
  const bool is_gathered = is_fp8(weight.value.dtype());  // ZeRO-3 did it
  const bool is_known = is_gathered || weight.quantized;
  const DelayedAmax later = find_amax_later(x.values, kind, weight);
  DelayedAmax weight_later;
  if (!is_known) {
    weight.quantized_amax = allocate_weight(stream, DType::F32, {1, 1});
    weight_later = find_amax_later(weight.value, OperandKind::Weight, weight);
  }
  const bool finds_weight = !is_known && !weight_later.used;
  const bool agrees_on_weight = finds_weight && must_agree() && !ranks_->is_one();
  Tensor both = allocate_activation(stream, DType::F32, {agrees_on_weight ? 2 : 1, 1});
  Tensor of_x = both.slice(0, 1);
  if (!later.used) find_amax(stream, of_x, x.values, kind, weight, activated_of(x));
  if (finds_weight) {
    Tensor amax = agrees_on_weight ? both.slice(1, 2) : weight.quantized_amax;
    find_amax(stream, amax, weight.value, OperandKind::Weight, weight);
  }
  if (must_agree()) ranks_->agree(stream, both);
  if (agrees_on_weight) copy(stream, weight.quantized_amax, both.slice(1, 2));
  Operand rows;
  x.amax = of_x;
  if (is_turned) {
    rows = turn(stream, x, kind, Rows::Made, later);
  } else {
    x.values = to_fp8(stream, type_of(kind), x.values, of_x, {});
    rows = {x.values, x.amax};
  }
  if (!is_known) {
    Tensor none;
    weight.quantized = allocate_weight(stream, DType::F8E4M3, weight.value.shape());
    if (turns(weight.value))
      quantize_turned(stream, weight.quantized, none, weight.quantized_amax, weight.value,
                      {.delayed = weight_later});
    else
      sextant::quantize(stream, weight.quantized, weight.value, weight.quantized_amax, {});
  }
  const Operand known = is_gathered ? Operand{weight.value, weight.amax}
                                    : Operand{weight.quantized, weight.quantized_amax};
  return {rows, scaled_by(known, of_x)};
}

Operand Fp8Operands::weight(Stream& stream, Param& weight) const {
  const ScaleBlock block = weight.blocks(recipe_);
  if (is_fp8(weight.value.dtype())) return {weight.value, weight.amax, block};
  if (!weight.quantized) {
    const Shape shape = weight.value.shape();
    weight.quantized_amax = allocate_weight(stream, DType::F32, block.grid(shape));
    weight.quantized = allocate_weight(stream, DType::F8E4M3, shape);
    if (block == kWeightBlock) {
      quantize_blocks(stream, weight.quantized, weight.quantized_amax, weight.value);
    } else {
      block_amax(stream, weight.quantized_amax, weight.value, block);
      if (recipe_ == Fp8Recipe::Delayed)
        delayed_->take(stream, weight.quantized_amax, weight, OperandKind::Weight);
      sextant::quantize(stream, weight.quantized, weight.value, weight.quantized_amax, block);
    }
  }
  return {weight.quantized, weight.quantized_amax, block};
}

Operand Fp8Operands::for_product(Stream& stream, const Tensor& x) const {
  return in_blocks(stream, x, kTile);
}

void Fp8Operands::for_weight_gradient(Stream& stream, OperandSlots x, int64_t part_rows) const {
  if (turns(x.values)) {
    turn_tiles(stream, x, Rows::Skipped);
    return;
  }
  const Operand columns = in_blocks(stream, x.values, {kScaleBlock, 1, part_rows});
  x.values = columns.values;
  x.amax = columns.amax;
}

Operand Fp8Operands::of_weight_gradient(const OperandSlots& x, int64_t part_rows) const {
  Operand out{x.values, x.amax};
  out.is_turned = turns(x.values);
  if (x.sums != nullptr) out.sums = *x.sums;
  if (has_blocks()) out.block = out.is_turned ? kTile : ScaleBlock{kScaleBlock, 1, part_rows};
  return out;
}

void Fp8Operands::quantize_input(Stream& stream, OperandSlots x, const Param& weight) const {
  if (has_blocks()) return for_weight_gradient(stream, x);
  x.amax = allocate_activation(stream, DType::F32, {1, 1});
  const DelayedAmax later = find_amax_later(x.values, OperandKind::Input, weight);
  if (!later.used) find_amax(stream, x.amax, x.values, OperandKind::Input, weight, activated_of(x));
  if (must_agree()) ranks_->agree(stream, x.amax);
  if (later.used)
    turn(stream, x, OperandKind::Input, Rows::Skipped, later);
  else
    requantize(stream, x);
}

Fp8Operands::Pair Fp8Operands::quantize_rows(Stream& stream, OperandSlots x, OperandKind kind,
                                             Param& weight, const ExpertRows& rows) const {
  const Operand of_weight = this->weight(stream, weight);
  if (!has_blocks()) {
    Tensor amax = grouped_scales(stream, x.values, {}, rows);
    grouped_amax(stream, amax, x.values, rows.offsets, {});
    if (recipe_ == Fp8Recipe::Delayed) delayed_->take(stream, amax, weight, kind);
    x.values = grouped_to_fp8(stream, type_of(kind), x.values, amax, {}, rows);
    x.amax = amax;
    return {{x.values, x.amax}, scaled_by(of_weight, amax)};
  }
  Operand q;
  q.block = kTile;
  q.amax = allocate_activation(stream, DType::F32, kTile.grid({rows.room, x.values.dim(1)}))
               .slice(0, kTile.grid(x.values.shape())[0]);  // one of a rank without rows
  block_amax(stream, q.amax, x.values, kTile);
  q.values = with_room(stream, DType::F8E4M3, x.values, x.values.dim(1), rows);
  sextant::quantize(stream, q.values, x.values, q.amax, kTile);
  x.amax = grouped_scales(stream, x.values, kColumnTile, rows);
  grouped_amax(stream, x.amax, x.values, rows.offsets, kColumnTile);
  x.values = grouped_to_fp8(stream, DType::F8E4M3, x.values, x.amax, kColumnTile, rows);
  return {q, scaled_by(of_weight, q.amax)};
}

Operand Fp8Operands::rows_of_weight_gradient(const OperandSlots& x) const {
  return {x.values, x.amax, has_blocks() ? kColumnTile : ScaleBlock{}};
}

void Fp8Operands::requantize_rows(Stream& stream, OperandSlots x, const ExpertRows& rows) const {
  x.values = grouped_to_fp8(stream, DType::F8E4M3, x.values, x.amax,
                            has_blocks() ? kColumnTile : ScaleBlock{}, rows);
}

void Fp8Operands::requantize(Stream& stream, OperandSlots x) const {
  if (turns(x.values)) {
    if (has_blocks())
      turn_tiles(stream, x, Rows::Skipped);
    else
      turn(stream, x, OperandKind::Input, Rows::Skipped);
    return;
  }
  x.values =
      to_fp8(stream, DType::F8E4M3, x.values, x.amax, has_blocks() ? kColumnTile : ScaleBlock{});
}

}  // namespace sextant
