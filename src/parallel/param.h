#pragma once
#include <string>
#include <vector>

#include "base/fragment.h"
#include "base/number_types.h"
#include "base/range.h"
#include "ops/dispatch.h"
#include "ops/quantize.h"
#include "program/groups.h"
#include "tensor/tensor.h"

namespace sextant {

// A trained tensor with its gradient. `name` is global: the same in every layout.
struct Param {
  std::string name;
  Shape shape;   // of this rank's tensor-parallel shard
  Tensor value;  // [shape]
  Tensor amax;   // f32: the largest absolute values of its blocks, where it was gathered in fp8
  // A step's fp8 form of `value` and its largest absolute values, made at the first use where it
  // was not gathered in fp8.
  Tensor quantized, quantized_amax;
  Tensor grad;
  bool decay = false;  // weight decay applies
  Shape whole;         // shape of the unsharded parameter, padding included
  // Rows of dim 0 of the whole that exist in the model; the others are padding, always zero.
  int64_t valid_rows = 0;
  Fragment fragment;  // this rank's shard of the whole
  // Elements replicated on `copies` consecutive tensor-parallel ranks, and whether the gradients of
  // these ranks are partial sums that must be added up.
  Range shared;
  int copies = 1;
  bool is_partial = false;
  RouterState router_state = RouterState::None;
  bool is_linear = false;  // its products have fp8 operands, where those of linear layers do
  // Of matrices of experts, one below the other: how many there are, and those of this rank.
  int64_t experts = 0;
  Range own_experts;
  int64_t linear = -1;  // the first row of its histories, with delayed scaling

  // How to write the next gradient contribution: the first of a step replaces, later ones add.
  Write next_write() {
    const Write write = touched ? Write::Add : Write::Replace;
    touched = true;
    return write;
  }
  void start_step() { touched = false; }
  // With one scale per matrix: of the parameter in all layouts, of its shard here.
  int64_t scales() const { return experts > 0 ? experts : 1; }
  int64_t own_scales() const { return experts > 0 ? own_experts.size() : 1; }
  // The blocks of the weight in fp8. Those of an expert begin at its first row.
  ScaleBlock blocks(Fp8Recipe recipe) const {
    const int64_t rows = experts > 0 ? shape[0] / own_scales() : 0;
    if (recipe == Fp8Recipe::Block) return {kScaleBlock, kScaleBlock, rows};
    return {rows, 0};
  }
  void forget_quantized() { quantized = quantized_amax = Tensor(); }

  bool touched = false;  // has a gradient contribution in this step
};

// Whether the products of a parameter have fp8 operands, where those of linear layers do: all
// matrices of attention, MLPs and experts but routers and projections to latents.
bool is_linear(const LayerSpec& layer, const ParamSpec& spec);
// Whether it has the matrices of experts, one below the other.
bool has_experts(const ParamSpec& spec);

// The parameters of a rank, in the order of plan.params, without memory.
std::vector<Param> make_params(const Blueprint& blueprint, const GroupPlan& plan);

// The part of a parameter that this rank updates: elements range.begin ... range.end - 1 of its
// tensor-parallel shard as a flat vector, maybe none. The ranks of a shard group together own every
// element once.
struct OwnedSlice {
  std::string name;
  Shape shape;             // of the whole parameter
  int64_t valid_rows = 0;  // of the whole parameter
  bool decay = false;
  Range range;
  Tensor value, grad;  // [range.size()]; grad is empty in a model that is not trained
  // The gradient norm adds this slice on exactly one of the ranks that hold it. The norm is summed
  // along shard, tp and pp; with expert parallelism over all ranks.
  bool in_grad_norm = true;
  Fragment fragment = {};  // this rank's shard of the whole
  int group = 0;           // index among this rank's groups
  NumberTypes types = {};
  bool is_saved = true;  // on one rank of the world: it is in checkpoints once
  Tensor master = {};    // [range.size()]: set by an optimizer that keeps master weights
  RouterState router_state = RouterState::None;

  // The weights in the type in which they are updated and saved.
  const Tensor& precise_value() const { return master ? master : value; }
};

// A tensor of the training state under its global name, as checkpoints see it: weights under the
// parameter's own name, optimizer state under "optim.<kind>.<parameter>". `tensor` can be a part:
// flat elements from `first` on of `fragment`, or without fragment of the whole of shape `shape`.
struct NamedTensor {
  std::string name;
  Tensor tensor;
  int64_t valid_rows = 0;  // rows of dim 0 of the whole that are stored
  Shape shape = {};        // of the whole, padding included; no dims: `tensor` is the whole
  int64_t first = 0;       // first element
  Fragment fragment = {};  // no rows: the whole
};

}  // namespace sextant
