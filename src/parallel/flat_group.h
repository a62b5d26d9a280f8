#pragma once
#include <string>
#include <vector>

#include "base/number_types.h"
#include "comm/communicator.h"
#include "ops/quantize.h"
#include "parallel/param.h"

namespace sextant {

// What is sharded over the ranks of a shard group.
//   None       nothing: DDP
//   Optimizer  optimizer state: ZeRO-1
//   Gradients  optimizer state and gradients: ZeRO-2
//   Weights    optimizer state, gradients and weights: ZeRO-3, FSDP
enum class ZeroStage { None, Optimizer, Gradients, Weights };

// The all-gather of sharded weights in fp8: matrices of linear layers travel in one byte, the other
// parameters in the compute type.
struct Fp8Gather {
  bool is_used = false;
  int64_t vector_elements = 0;  // of the other parameters
  // f32: the largest absolute values of the blocks of each matrix, over all shards and, where a
  // matrix has one scale, tensor parallel ranks. Kept for a step.
  Tensor amax;
  std::vector<Range> amax_places;  // of each parameter's blocks, empty of the others
  Tensor own;                      // [owned], fp8, while they travel
  Tensor matrices;                 // [elements], fp8: places of other parameters are unused
  Tensor vectors;                  // [vector_elements]
  Pending vector_gather;
};

// Parameters stored contiguously in one vector, and this rank's shard of it. ShardedParams decides
// which tensors exist when.
struct FlatGroup {
  std::string name;
  NumberTypes types;
  int number = 0;  // among the groups of the whole model
  ZeroStage stage = ZeroStage::None;
  bool is_expert = false;  // experts of a layer, with expert parallelism
  std::vector<Param*> params;
  std::vector<int64_t> offsets;  // of each parameter in the vector
  int64_t elements = 0;
  Range owned;  // elements this rank updates: its shard
  Range kept;   // elements whose weights it keeps between uses: all, or the owned ones (ZeRO-3)
  // Ranks over which the vector is sharded; ranks with the same shard and other data. Maybe one.
  Communicator* shards;
  Communicator* replicas;

  Tensor kept_weights;   // [kept]
  Tensor kept_gradient;  // [elements], or [owned] when gradients are sharded; empty in inference
  Tensor gathered;       // [elements], while sharded weights are gathered
  Fp8Gather fp8;         // in place of that, if it has linear layers that compute in fp8
  Tensor bucket;         // [elements], while a sharded gradient is computed or reduced

  Pending weight_gather;       // all-gather of weights
  Pending shard_reduction;     // reduce-scatter of gradients over the shards
  Pending replica_reduction;   // all-reduce of gradients over the replicas
  bool is_duplicated = false;  // another pipeline rank has the same group

  // Makes the parameters views of a vector of all elements; an empty tensor unbinds them.
  void bind_values(const Tensor& flat);
  void bind_gradients(const Tensor& flat);

  // Makes the parameters views of what was gathered in fp8.
  void bind_fp8();
  // The largest values of a matrix, of each of its blocks.
  Tensor fp8_amax(size_t param) const;

  // The owned elements of `flat`, which has all elements or only the owned ones.
  Tensor owned_part(const Tensor& flat) const;

  // f(param, elements of the parameter, the same elements counted from range.begin) for the overlap
  // of each parameter with `range` of the vector; both are empty where there is no overlap.
  template <class F>
  void for_each_piece(const Range& range, F&& f) {
    for (size_t i = 0; i < params.size(); ++i) {
      const Range whole{offsets[i], offsets[i] + params[i]->shape.elements()};
      const Range part = overlap(whole, range);
      if (part.size() == 0)
        f(*params[i], Range{}, Range{});
      else
        f(*params[i], Range{part.begin - whole.begin, part.end - whole.begin},
          Range{part.begin - range.begin, part.end - range.begin});
    }
  }
};

}  // namespace sextant
