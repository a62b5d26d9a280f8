#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fault/inject.h"
#include "mesh/mesh.h"
#include "parallel/flat_group.h"
#include "parallel/param.h"
#include "program/state_program.h"

namespace sextant {

// What the ranks of a shard group divide among themselves.
//   None       nothing: DDP
//   Optimizer  optimizer state: ZeRO-1
//   Gradients  and gradients: ZeRO-2
//   Weights    and weights: ZeRO-3, FSDP
enum class ZeroStage { None, Optimizer, Gradients, Weights };

struct ShardingOptions {
  ZeroStage stage = ZeroStage::None;
  NumberTypes types = {};
  bool gradients = true;  // false for a model that is not trained: no memory for them
  Injection inject = {};  // a mistake made on purpose, for tests of those who should notice
  // Which groups another rank of the pipeline holds too, and whether this one is the second of the
  // two.
  RankPart::Duplicates duplicates = RankPart::Duplicates::None;
  bool is_second = false;
};

// The parameters of a rank over the data ranks of a mesh: who keeps what, and the communication
// that follows. The model brackets each layer's work with before and after; what happens then is
// in the StateProgram.
//
//   DDP      gradients of a group are all-reduced as soon as the last micro-batch has them
//   ZeRO-1   reduce-scattered instead; updated slices are all-gathered while the next step begins
//   ZeRO-2   a group's whole gradient exists only while it is made and reduced
//   ZeRO-3   so do its weights: gathered one use ahead, freed after it
//
// With replicas (dp > 1) the reduced slices are summed over them too, once a step. At the end of it
// come the sums over ranks that have the same elements: those that share a layer and each have the
// gradient of their own tokens or heads, then duplicates of the pipeline.
class ShardedParams {
 public:
  // Memory is given to `params` here (make_params). All ranks of the mesh make theirs together; it
  // must outlive this.
  ShardedParams(Stream& stream, std::vector<Param> params, const GroupPlan& plan, Mesh& mesh,
                const ShardingOptions& options);
  ShardedParams(ShardedParams&&) = default;

  // In the order given. `value` and `grad` are there while a layer that uses them runs, and always
  // when nobody divides them.
  std::span<Param> params() { return params_; }
  // What this rank updates, in the same order: a parameter has one slice, or several where some of
  // its elements are on other ranks too.
  std::span<OwnedSlice> owned() { return owned_; }
  // f(param, range of its elements, values) for all weights this rank keeps.
  template <class F>
  void for_each_kept(F&& f) {
    for (FlatGroup& group : groups_)
      group.for_each_piece(group.kept, [&](Param& param, const Range& range, const Range& place) {
        f(param, range, group.kept_weights.slice(place.begin, place.end));
      });
  }

  const GroupPlan& plan() const { return plan_; }
  ZeroStage stage() const { return stage_; }
  // Of these uses, under what this rank divides with others.
  StateProgram make_program(std::vector<LayerUse> uses) const {
    return StateProgram(plan_, std::move(uses), static_cast<int>(stage_));
  }

  // The uses of the program follow, each between before and after. It must outlive them.
  void begin_step(const StateProgram& program);  // gradients start anew
  void begin_evaluation(const StateProgram& program);
  void before(Stream& stream, const LayerUse& use);
  void after(Stream& stream, const LayerUse& use);
  // Waits until the gradients of owned() are those of all data ranks and duplicates.
  void finish_gradients(Stream& stream);
  // After an update of owned(): has every rank get the new values. Uses wait for theirs.
  void publish_weights(Stream& stream);
  // Waits until all kept weights are what their owners last published.
  void await_weights();
  // The forward uses made so far are not wanted: what was gathered for them, or is on its way, is
  // let go. Another begin_step or begin_evaluation follows.
  void let_go();

 private:
  void list_owned(bool is_second);
  void join_copies(Communicator& tensor);
  void sum_copies(Stream& stream);
  void run(Stream& stream, const StateEvent& event);
  void gather(Stream& stream, FlatGroup& group);
  void begin_bucket(Stream& stream, FlatGroup& group);
  void reduce(Stream& stream, FlatGroup& group, const StateEvent& event);
  void reduce_bucket(Stream& stream, FlatGroup& group, const StateEvent& event);
  void sum_over_replicas(Stream& stream, FlatGroup& group);
  bool is_hit(InjectionKind kind, const FlatGroup& group) const;

  std::vector<Param> params_;
  GroupPlan plan_;
  int world_rank_, tensor_rank_;
  // This rank and the one that holds groups with a duplicate too; or this one alone.
  std::unique_ptr<Communicator> duplicates_;
  ZeroStage stage_;
  Injection inject_;
  std::vector<FlatGroup> groups_;
  std::vector<OwnedSlice> owned_;
  // Slices whose gradients are terms of a sum over these ranks.
  struct Copies {
    std::unique_ptr<Communicator> ranks;
    std::vector<size_t> slices;
  };
  std::map<int, Copies> copies_;  // by their number
  const StateProgram* program_ = nullptr;
  size_t next_ = 0;  // use of it
  int64_t step_ = 0;
};

}  // namespace sextant
