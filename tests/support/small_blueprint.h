#pragma once
#include "blueprint/blueprint.h"

namespace sextant {

// A gpt2 of so many equal blocks.
inline Blueprint small_blueprint(int64_t layers) {
  ModelConfig model;
  model.layers = layers;
  model.hidden = 64;
  model.heads = model.kv_heads = 2;
  model.head_dim = 32;
  model.ffn = 256;
  model.vocab = 128;
  model.seq = 32;
  return make_blueprint(model);
}

}  // namespace sextant
