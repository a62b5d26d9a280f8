#pragma once
#include <vector>

#include "blueprint/blueprint.h"
#include "trace/trace.h"

namespace sextant {

// What a tensor is that a layer keeps from forward to backward, told by the operation that writes
// it.
enum class Kept {
  Input,           // of a layer: the output of the layer before it
  Statistics,      // of the norm
  Normed,          // input
  Qkv,             // queries, keys and values as attention reads them
  RawQkv,          // the same before head norm
  HeadStatistics,  // of head norm
  LogSumExp,       // of scores
  Attended,        // values
  Wide,            // what the nonlinearity of the mlp reads
  Active,          // what it gives
};

struct KeptTensor {
  LayerKind layer;
  Kept kind;
  int64_t bytes = 0;
  DType dtype = DType::F32;
};

// What a block keeps of the first micro-batch of a trace: the activations that an attention layer,
// number `attention` of the blueprint, and the mlp behind it take in forward, and that still live
// when the forward of the next layer begins. The output of the mlp stands for the input of the
// attention, which the block before it took. Error(Internal) for a tensor that nobody has named.
std::vector<KeptTensor> kept_tensors(const Trace& trace, const Blueprint& blueprint,
                                     size_t attention);

}  // namespace sextant
