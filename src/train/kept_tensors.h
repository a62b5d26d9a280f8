#pragma once
#include <vector>

#include "blueprint/blueprint.h"
#include "trace/trace.h"

namespace sextant {

// Kinds of tensors that a layer keeps from forward to backward, recognised by the operation that
// writes them.
enum class Kept {
  Input,           // of a layer: the previous layer's output
  Statistics,      // of the norm
  Normed,          // input
  Qkv,             // queries, keys and values as attention reads them
  RawQkv,          // the same before the head norm
  HeadStatistics,  // of the head norm
  LogSumExp,       // of attention scores
  Attended,        // attention output
  Wide,            // input of the MLP's nonlinearity
  Active,          // its output
  Scales,          // of fp8 tensors
};

struct KeptTensor {
  LayerKind layer;
  Kept kind;
  int64_t bytes = 0;
  DType dtype = DType::F32;
};

// What a block keeps of the first micro-batch of a trace: activations that attention layer
// `attention` of the blueprint and the next MLP allocate in forward and that are alive when
// backward starts. The MLP's output counts as the attention's input, which the previous block
// allocated. Error(Internal) for an unknown tensor.
std::vector<KeptTensor> kept_tensors(const Trace& trace, const Blueprint& blueprint,
                                     size_t attention);

}  // namespace sextant
