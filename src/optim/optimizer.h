#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "ops/adamw.h"
#include "ops/router_bias.h"
#include "ops/sgd.h"
#include "parallel/param.h"
#include "tensor/host_arena.h"
#include "tensor/stream.h"

namespace sextant {

// Number of moments per parameter.
int64_t moment_count(const OptimConfig& optim);
// Names of a parameter's moments, "optim.first_moment.<parameter>".
std::vector<std::string> moment_names(const OptimConfig& optim, const std::string& param);

// AdamW or SGD over the shards that a rank owns. Weight decay applies to parameters with `decay`.
// Biases of routers take steps of a fixed size against their load error instead.
class Optimizer {
 public:
  // The slices must outlive it. Moments start at zero. Slices whose types ask for master weights
  // get them, without values yet. `seed`: of stochastic rounding. `host`: where masters and moments
  // are kept, if not in the stream's arena (offload); must outlive it.
  Optimizer(Stream& stream, std::span<OwnedSlice> slices, const OptimConfig& optim,
            uint64_t seed = 0, HostArena* host = nullptr);

  // Copies the weights into their masters: after weights were initialised.
  void take_masters(Stream& stream);

  // Scalars of the next update in device memory: the learning rate and bias corrections of update
  // `step`, counted from 0, and the scale of its gradients unless clip() writes it.
  Tensor& scalars() { return scalars_; }
  // Gradients are those of the loss times `loss_scale`.
  void set_scalars(Stream& stream, int64_t step, double lr, double gradient_scale = 1,
                   double loss_scale = 1);
  // The same on the host alone: an update that was recorded takes them from there.
  void set_scalars_on_host(int64_t step, double lr, double gradient_scale, double loss_scale);
  // One update of all slices, with these scalars.
  void step(Stream& stream);

  // Its tensors for a checkpoint, such as "optim.first_moment.<parameter>": all of them, or without
  // those of duplicates that another rank saves.
  enum class Which { All, Saved };
  std::vector<NamedTensor> state(Which which = Which::All) const;

 private:
  // One kind of state: flat tensors by group, and of these a view per slice.
  struct State {
    std::map<int, Tensor> flat;
    std::vector<Tensor> parts;
  };
  // The state of a slice as an update reads and writes it.
  struct SliceState {
    Tensor master, first, second;
  };
  // A parameter group whose state is offloaded.
  struct OffloadedGroup {
    std::vector<Tensor> host, device;  // flat, of each kind of state
    size_t first_part = 0, last_part = 0, first_bias = 0, last_bias = 0, first_load = 0,
           last_load = 0;
    HostCopy fetched = {};
  };

  // Zeros of the dtype that the slices' types say.
  State make_state(Stream& stream, DType NumberTypes::*dtype) const;
  std::vector<Tensor> parts_of(const std::map<int, Tensor>& flat) const;
  void offload(Stream& stream, const std::vector<const State*>& kinds);
  void add_parts(const std::vector<SliceState>& states);
  void add_adamw(size_t i, double decay, const SliceState& state);
  void fetch(Stream& stream, OffloadedGroup& group);
  void update(Stream& stream, size_t first_part, size_t last_part);
  void update_biases(Stream& stream, size_t first, size_t last);
  void update_loads(Stream& stream, size_t first, size_t last);

  std::span<OwnedSlice> slices_;
  OptimConfig optim_;
  uint64_t seed_;
  HostArena* host_;
  std::vector<OffloadedGroup> offloaded_;  // empty without a host arena
  std::vector<Tensor> first_, second_;     // by slice; second_ only for AdamW
  std::vector<AdamWPart> adamw_parts_;     // one of the two is empty
  std::vector<SgdPart> sgd_parts_;
  std::vector<RouterBiasPart> bias_parts_, load_parts_;
  Tensor scalars_;
  UpdateScalars scalars_on_host_{};
};

}  // namespace sextant
