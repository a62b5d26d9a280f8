#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/run_ranks.h"
#include "train/trainer.h"

namespace sextant {

// Tensors in global shape on the host, by name.
using GlobalTensors = std::map<std::string, std::vector<float>>;

// All ranks of one layout in this process, one step at a time; gives their state as global tensors.
class LayoutRun {
 public:
  // `micros`: micro-batches per data parallel rank, in place of the layout's own when given.
  LayoutRun(const Config& config, const Loader& data, std::vector<std::vector<MicroSlice>> micros,
            Storage& storage, const Clock& clock);
  ~LayoutRun();

  double compute_gradients();  // returns the loss
  void update();

  GlobalTensors gradients();
  GlobalTensors weights();
  GlobalTensors moments();
  // Bounds of the absolute terms of each gradient, over all ranks; see Transformer::count_terms.
  std::map<std::string, double> terms();
  // Ranks whose copy of a weight differs in bits from `weights`, by weight name.
  std::map<std::string, std::vector<int>> differing_replicas(const GlobalTensors& weights);

  void set_gradients(const GlobalTensors& gradients);
  void set_state(const GlobalTensors& weights, const GlobalTensors& moments);

 private:
  struct Rank {
    std::unique_ptr<Mesh> mesh;
    std::unique_ptr<Trainer> trainer;
  };
  template <class F>
  void on_ranks(F&& f);
  GlobalTensors collect(Tensor OwnedSlice::*which);

  Config config_;
  Preflight flight_;
  ThreadWorld world_;
  std::vector<Rank> ranks_;
};

}  // namespace sextant
