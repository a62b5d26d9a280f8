#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fault/inject.h"
#include "mesh/mesh.h"
#include "parallel/delayed_scales.h"
#include "parallel/flat_group.h"
#include "parallel/param.h"
#include "program/state_program.h"

namespace sextant {

struct ShardingOptions {
  ZeroStage stage = ZeroStage::None;
  NumberTypes types = {};
  bool gradients = true;  // false for a model that is not trained: allocates none
  Injection inject = {};  // injected fault, for tests
  // Which groups another pipeline rank holds too, and whether this rank is the second of the two.
  RankPart::Duplicates duplicates = RankPart::Duplicates::None;
  bool is_second = false;
};

// The parameters of a rank, their sharding over the data-parallel ranks of a mesh, and the
// communication for it. The model calls before and after around each use of a layer; the
// StateProgram says what these do.
//
//   DDP      all-reduces the gradients of a group as soon as its last micro-batch is done
//   ZeRO-1   reduce-scatters them instead; all-gathers updated weights as the next step begins
//   ZeRO-2   keeps a group's unsharded gradient only while it is computed and reduced
//   ZeRO-3   also keeps unsharded weights only during a use: gathers one use ahead, frees after
//
// With expert parallelism the experts of a layer are a group of their own, whose gradients are
// summed over the ranks with the same parts of the same experts (ExpertAxis::Edp) and whose state
// is sharded over them.
//
// With replicas (dp > 1) the reduced shards are also summed over them, once a step. At the end of a
// step come the sums over ranks that hold the same elements: first tensor-parallel ranks whose
// gradients are partial sums (of their tokens or heads), then duplicates in the pipeline.
class ShardedParams {
 public:
  // Allocates the tensors of `params` (see make_params). Collective over `mesh`, which must outlive
  // this.
  ShardedParams(Stream& stream, std::vector<Param> params, const GroupPlan& plan, Mesh& mesh,
                const ShardingOptions& options);
  ShardedParams(ShardedParams&&) = default;

  // In the order given. If sharded, `value` and `grad` exist only between before and after of a
  // layer that uses them; otherwise always.
  std::span<Param> params() { return params_; }
  // What this rank updates, in the same order. A parameter has one slice, or several if only some
  // of its elements are replicated on other ranks.
  std::span<OwnedSlice> owned() { return owned_; }
  // f(param, range of its elements, values) for all weights this rank keeps.
  template <class F>
  void for_each_kept(F&& f) {
    for (FlatGroup& group : groups_)
      group.for_each_piece(group.kept, [&](Param& param, const Range& range, const Range& place) {
        f(param, range, group.kept_weights.slice(place.begin, place.end));
      });
  }

  // Of fp8 with delayed scaling; else of no layer.
  DelayedScales& delayed() { return delayed_; }
  const GroupPlan& plan() const { return plan_; }
  ZeroStage stage() const { return stage_; }  // of all groups but those of experts
  // The StateProgram for these uses under this sharding.
  StateProgram make_program(std::vector<LayerUse> uses) const;

  // Begins a step: before must then be called for each use of the program in order, and after when
  // it is done. The program must outlive the step.
  void begin_step(const StateProgram& program);  // also resets the gradients
  void begin_evaluation(const StateProgram& program);
  void before(Stream& stream, const LayerUse& use);
  void after(Stream& stream);
  // The next `uses` of the program are not made; those after them find the same state.
  void leave_out(int64_t uses) { next_ += static_cast<size_t>(uses); }
  // All uses were made or left out: frees the fp8 forms of weights.
  void end_uses();
  // Waits until the gradients of owned() are summed over all data-parallel ranks and duplicates.
  void finish_gradients(Stream& stream);
  // After an update of owned(): starts the all-gather of the new weights. before() awaits those of
  // its layer.
  void publish_weights(Stream& stream);
  // Waits until all kept weights are those last published.
  void await_weights();
  // Discards the forward uses so far: waits for gathers in flight and frees gathered weights.
  // Another begin_step or begin_evaluation must follow.
  void discard_forward();

 private:
  void place(FlatGroup& group, Mesh& mesh, ZeroStage wanted);
  void list_owned(Mesh& mesh, bool is_second);
  void scale_experts(Stream& stream);
  void make_copy_groups(Communicator& tensor);
  void sum_copies(Stream& stream);
  void run(Stream& stream, const StateEvent& event);
  void gather(Stream& stream, FlatGroup& group);
  void gather_fp8(Stream& stream, FlatGroup& group);
  void find_amax(Stream& stream);
  void finish_amax(Stream& stream);
  static void free_gathered(FlatGroup& group);
  void begin_bucket(Stream& stream, FlatGroup& group);
  void reduce(Stream& stream, FlatGroup& group, const StateEvent& event);
  void reduce_bucket(Stream& stream, FlatGroup& group, const StateEvent& event);
  void sum_over_replicas(Stream& stream, FlatGroup& group);
  bool is_injected(InjectionKind kind, const FlatGroup& group) const;

  std::vector<Param> params_;
  GroupPlan plan_;
  int world_rank_, tensor_rank_;
  Communicator* tensor_;
  Communicator* data_;
  // This rank and the pipeline rank that holds the same groups, if there is one.
  std::unique_ptr<Communicator> duplicates_;
  ZeroStage stage_;
  Injection inject_;
  std::vector<FlatGroup> groups_;
  DelayedScales delayed_;
  std::vector<OwnedSlice> owned_;
  // Slices replicated on these tensor-parallel ranks, whose gradients are partial sums.
  struct Copies {
    std::unique_ptr<Communicator> ranks;
    std::vector<size_t> slices;
  };
  std::map<int, Copies> copies_;  // by number of replicas
  const StateProgram* program_ = nullptr;
  size_t next_ = 0;  // index of the use of the program that is made, or is next
  int64_t step_ = 0;
};

}  // namespace sextant
