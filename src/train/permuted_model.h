#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "blueprint/blueprint.h"
#include "train/layout_run.h"

namespace sextant {

// A model with its parts in another order: the same function in exact arithmetic, with its sums
// added up in another order. Permuted, each layer with its own order:
//   key-value heads, and the query heads of each
//   the channels of a value head
//   FFN units, the same in all experts of a layer
// and, the same in all layers, the hidden channels. With dropout those stay, because the mask
// depends on the channel.
class PermutedModel {
 public:
  PermutedModel(const Blueprint& blueprint, uint64_t seed);

  // Tensors of the model itself and of the permuted one, weights or optimizer state of them.
  GlobalTensors permuted(const GlobalTensors& tensors) const;
  GlobalTensors restored(const GlobalTensors& tensors) const;

 private:
  using Order = std::vector<int64_t>;  // by new place: the old one; empty: unchanged
  struct Orders {
    Order rows, columns;
  };
  Order draw(int64_t size, const std::string& name) const;
  void set_attention(const LayerSpec& layer, const ModelConfig& model);
  void set_latents(const LayerSpec& layer, const ModelConfig& model);
  void set_mlp(const LayerSpec& layer, const ModelConfig& model);
  void set_experts(const LayerSpec& layer, const ModelConfig& model);
  const ParamSpec& spec_of(const std::string& name) const;
  // f(place in the permuted tensor, place in the model's).
  template <class F>
  void for_each_element(const std::string& name, F&& f) const;

  Random random_;
  std::map<std::string, ParamSpec> specs_;
  std::map<std::string, Orders> orders_;
};

}  // namespace sextant
