#pragma once
#include <span>
#include <string>
#include <vector>

#include "fault/inject.h"
#include "mesh/mesh.h"
#include "parallel/flat_group.h"
#include "parallel/param.h"

namespace sextant {

// What the ranks of a shard group divide among themselves.
//   None       nothing: DDP
//   Optimizer  optimizer state: ZeRO-1
//   Gradients  and gradients: ZeRO-2
//   Weights    and weights: ZeRO-3, FSDP
enum class ZeroStage { None, Optimizer, Gradients, Weights };

// The groups of a model: parameters that are reduced, gathered and freed together. Each layer uses
// one group.
struct ParamGroups {
  std::vector<std::vector<size_t>> params;  // of each group, ascending
  std::vector<std::string> names;
  std::vector<size_t> group_of_layer;
  std::vector<bool> reads_in_backward;  // by layer: backward needs the weights, not only gradients
};

enum class Pass { Forward, Backward };

struct ShardingOptions {
  ZeroStage stage = ZeroStage::None;
  DType dtype = DType::F32;
  bool gradients = true;  // false for a model that is not trained: no memory for them
  Injection inject = {};  // a mistake made on purpose, for tests of those who should notice
};

// The parameters of a model over the data ranks of a mesh: who keeps what, and the communication
// that follows. The model brackets each layer's work with before and after.
//
//   DDP      gradients of a group are all-reduced as soon as the last micro-batch has them
//   ZeRO-1   reduce-scattered instead; updated slices are all-gathered while the next step begins
//   ZeRO-2   a group's whole gradient exists only while it is made and reduced, each micro-batch
//   ZeRO-3   so do its weights: gathered one use ahead, freed after it
//
// With replicas (dp > 1) the reduced slices are summed over them too, once a step.
class ShardedParams {
 public:
  // `params` have name, shape, decay and valid_rows; memory is given here. No mesh: a rank alone.
  // The mesh must outlive this.
  ShardedParams(Stream& stream, std::vector<Param> params, ParamGroups groups, Mesh* mesh,
                const ShardingOptions& options);
  ShardedParams(ShardedParams&&) = default;

  // In the order given. `value` and `grad` are there while a layer that uses them runs, and always
  // when nobody divides them.
  std::span<Param> params() { return params_; }
  // What this rank updates, in the same order.
  std::span<OwnedSlice> owned() { return owned_; }
  // f(param, range of its elements, values) for all weights this rank keeps.
  template <class F>
  void for_each_kept(F&& f) {
    for (FlatGroup& group : groups_)
      group.for_each_piece(group.kept, [&](Param& param, const Share& range, const Share& place) {
        f(param, range, group.kept_weights.slice(place.begin, place.end));
      });
  }

  void begin_step(int micros);  // gradients start anew
  void begin_micro();           // forward, then backward
  void begin_evaluation();      // a forward pass alone
  void before(Stream& stream, Pass pass, size_t layer);
  void after(Stream& stream, Pass pass, size_t layer);
  // Waits until the gradients of owned() are those of all data ranks.
  void finish_gradients(Stream& stream);
  // After an update of owned(): has every rank get the new values. Uses wait for theirs.
  void publish_weights(Stream& stream);
  // All kept weights are what their owners last published.
  void settle();

  ZeroStage stage() const { return stage_; }

 private:
  bool is_last_micro() const { return micro_ + 1 >= micros_; }
  void find_uses();
  void list_owned();
  size_t place_of(Pass pass, size_t layer) const;
  enum class Other { Any, Group };
  int next_use(size_t place, Other other) const;
  void open_window(Stream& stream, FlatGroup& group, size_t place);
  void gather(Stream& stream, FlatGroup& group);
  bool needs_bucket(const FlatGroup& group) const;
  void reduce(Stream& stream, FlatGroup& group);
  void reduce_bucket(Stream& stream, FlatGroup& group);
  void sum_over_replicas(Stream& stream, FlatGroup& group);
  void finish_bucket();
  bool is_hit(InjectionKind kind, const FlatGroup& group) const;

  std::vector<Param> params_;
  ParamGroups layout_;
  Communicator* world_ = nullptr;     // null when alone
  Communicator* shards_ = nullptr;    // null when nothing is divided
  Communicator* replicas_ = nullptr;  // null when there is one; all data ranks when not divided
  ZeroStage stage_;
  Injection inject_;
  std::vector<FlatGroup> groups_;
  std::vector<OwnedSlice> owned_;
  std::vector<size_t> first_layer_, last_layer_;  // of each group, in forward order
  std::vector<bool> is_shared_;                   // by group: used by layers that are apart
  // Group whose values each place of a micro-batch reads: layers forward, then back. -1: none.
  std::vector<int> uses_;
  int micro_ = 0, micros_ = 1;
  int64_t step_ = 0;
  bool training_ = true;
  FlatGroup* open_ = nullptr;       // whose values are gathered for the running layer
  FlatGroup* in_flight_ = nullptr;  // whose bucket is being reduced
};

}  // namespace sextant
