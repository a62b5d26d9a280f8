// Scales of fp8 that ranks agree on. ZeRO-3 in fp8: shards of linear layers are quantised before
// they are gathered. All ranks quantise with the largest values of the whole matrix or of its
// blocks, so that the bits are those of a rank that has it all.
#include <algorithm>
#include <array>
#include <span>

#include "ops/quantize.h"
#include "parallel/sharded_params.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

Tensor as_row(const Tensor& flat) {
  return flat.view({1, flat.elements()});
}

}  // namespace

// Ranks of tp have other experts, or parts of experts with scales of their own.
// Once before the first use of a step: weights do not change within it. With delayed scaling the
// ranks agree at the end of the step before.
void ShardedParams::find_amax(Stream& stream) {
  delayed_.begin(stream);
  for (FlatGroup& group : groups_) {
    if (!group.fp8.is_used) continue;
    size_t next = 0;
    group.for_each_piece(
        group.owned, [&](const Param& param, const Range& range, const Range& place) {
          const size_t at = next++;
          if (!param.is_linear) return;
          Tensor amax = group.fp8_amax(at);
          if (place.size() == 0)
            fill_zero(stream, amax);
          else
            block_amax(stream, amax, as_row(group.kept_weights.slice(place)),
                       param.blocks(group.types.fp8.recipe), {param.shape, range.begin});
          if (delayed_.is_used()) delayed_.take(stream, amax, param, OperandKind::Weight);
        });
    if (delayed_.is_used() && !delayed_.is_first()) continue;
    group.shards->all_reduce(stream, group.fp8.amax, ReduceOp::Max);
    if (tensor_->size() > 1 && group.types.fp8.recipe != Fp8Recipe::Block && !group.is_expert)
      tensor_->all_reduce(stream, group.fp8.amax, ReduceOp::Max);
  }
}

// Of the ranks with parts of a tensor or with other micro-batches of it. A pipeline rank that holds
// the same layers has all of them, or none that is linear.
void ShardedParams::finish_amax(Stream& stream) {
  if (!delayed_.is_used()) return;
  const bool has_duplicate = std::ranges::any_of(groups_, [](const FlatGroup& group) {
    return group.is_duplicated && std::ranges::any_of(group.params, &Param::is_linear);
  });
  const std::array<Communicator*, 3> all = {tensor_, data_, duplicates_.get()};
  const std::span<Communicator* const> groups(all.data(), has_duplicate ? 3 : 2);
  delayed_.finish(stream, groups, inject_.hits(InjectionKind::LocalAmax, -1, world_rank_, step_));
}

// The vectors have no even shards: every rank adds its elements to zeros.
void ShardedParams::gather_fp8(Stream& stream, FlatGroup& group) {
  Fp8Gather& fp8 = group.fp8;
  Arena& arena = stream.arena();
  fp8.own = arena.allocate(Category::Communication, DType::F8E4M3, {group.owned.size()});
  fp8.matrices = arena.allocate(Category::Weights, DType::F8E4M3, {group.elements});
  fp8.vectors = arena.allocate(Category::Weights, group.types.compute, {fp8.vector_elements});
  fill_zero(stream, fp8.vectors);
  if (is_injected(InjectionKind::SkipGather, group)) return fill_zero(stream, fp8.matrices);
  fill_zero(stream, fp8.own);
  size_t next = 0;
  int64_t first_vector = 0;
  group.for_each_piece(
      group.owned, [&](const Param& param, const Range& range, const Range& place) {
        const size_t at = next++;
        const int64_t vector = first_vector;
        if (!param.is_linear) first_vector += param.shape.elements();
        if (place.size() == 0) return;
        const Tensor from = group.kept_weights.slice(place);
        if (param.is_linear) {
          Tensor to = as_row(fp8.own.slice(place));
          quantize(stream, to, as_row(from), group.fp8_amax(at),
                   param.blocks(group.types.fp8.recipe), {param.shape, range.begin});
        } else {
          Tensor to = fp8.vectors.slice(vector + range.begin, vector + range.end);
          copy(stream, to, from);
        }
      });
  group.weight_gather = group.shards->all_gather(stream, fp8.matrices, fp8.own, When::Later);
  if (fp8.vector_elements > 0)
    fp8.vector_gather = group.shards->all_reduce(stream, fp8.vectors, ReduceOp::Sum, When::Later);
}

}  // namespace sextant
