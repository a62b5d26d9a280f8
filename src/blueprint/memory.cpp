#include "blueprint/memory.h"

#include <algorithm>
#include <map>

#include "blueprint/memory_layers.h"
#include "blueprint/memory_state.h"
#include "schedule/dependencies.h"
#include "schedule/speculation.h"

namespace sextant {
namespace {

// On one rank the first micro-batch of a step finds nothing in flight and the last one has nothing
// to gather ahead for; all between are the same.
constexpr int64_t kDistinctMicros = 3;

// One rank through its actions: what it computes, holds for others, and waits for.
class ActionWalk {
 public:
  ActionWalk(MemoryWalk& walk, const Blueprint& blueprint, const MemoryQuestion& question,
             const Pipeline& pipeline)
      : walk_(walk),
        blueprint_(blueprint),
        question_(question),
        sizes_(blueprint, question),
        schedule_(pipeline.schedule),
        part_(part_of(blueprint, pipeline, question.pipeline_rank)),
        program_(make_program(pipeline, part_, question.pipeline_rank)),
        plan_(make_groups(blueprint, part_)),
        state_(walk, plan_, question),
        events_(plan_, program_.uses, divided_stage(question)) {
    for (const Action& action : program_.actions)
      if (is_compute(action.kind)) ++actions_left_[action.micro];
    actions_of_ = actions_left_;
    if (question.backup) beginning_ = static_cast<int64_t>(first_backward(program_.actions));
    if (question.backup) loose_ = loose_ends(schedule_, question.pipeline_rank);
  }

  void run() {
    for (const RankProgram::Block& block : program_.blocks) {
      if (block.actions.begin == beginning_) discard();
      run(block);
    }
    state_.run(events_.at_end());
    sum_copies();
  }

 private:
  void run(const RankProgram::Block& block) {
    const Action& first = program_.actions[static_cast<size_t>(block.actions.begin)];
    if (first.kind == Kind::RecvF || first.kind == Kind::RecvB) walk_.take(sizes_.hidden);
    if (first.kind == Kind::SendF) send(forward_);
    if (first.kind == Kind::SendB) send(backward_);
    if (!is_compute(first.kind)) return;
    for (int64_t i = block.actions.begin; i < block.actions.end; ++i) begin(action(i).micro);
    for (int64_t i = block.uses.begin; i < block.uses.end; ++i) use(static_cast<size_t>(i));
    for (int64_t i = block.actions.begin; i < block.actions.end; ++i) end(action(i));
  }

  // What forwards have kept may be let go here, and what is under way has to end: with memory for
  // messages that this rank has not asked for, and for one of zeros.
  void discard() {
    int64_t under_way = forward_ + backward_;
    for (int64_t i = 0; i < beginning_; ++i) {
      if (action(i).kind == Kind::RecvF || action(i).kind == Kind::RecvB) ++under_way;
      if (action(i).kind == Kind::F && action(i).stage > 0 && has_receive(action(i))) --under_way;
    }
    const int64_t kept = walk_.now().activations - under_way * sizes_.hidden;
    const int64_t messages =
        static_cast<int64_t>(loose_.to_take.size()) + (loose_.to_send.empty() ? 0 : 1);
    walk_.free(kept);
    walk_.take(messages * sizes_.hidden);
    walk_.free(messages * sizes_.hidden);
    walk_.take(kept);
  }

  bool has_receive(const Action& forward) const {
    return schedule_.rank_of(forward.stage - 1, forward.micro) !=
           schedule_.rank_of(forward.stage, forward.micro);
  }

  const Action& action(int64_t index) const { return program_.actions[static_cast<size_t>(index)]; }

  // The oldest of the sends that may be under way lets go of its memory.
  void send(int& under_way) {
    if (under_way == kSendsUnderWay)
      walk_.free(sizes_.hidden);
    else
      ++under_way;
  }

  void begin(int micro) {
    if (actions_left_[micro] == actions_of_[micro]) walk_.take(sizes_.ids);
  }

  // Gradients that are terms of a sum over ranks that share the layers are copied together.
  void sum_copies() {
    const int shards = divided_stage(question_) > 0 ? question_.shard : 1;
    for (const auto& [copies, elements] :
         partial_elements(blueprint_, plan_, shards, shards > 1 ? question_.shard_rank : 0)) {
      walk_.take(elements * question_.element_size, &MemoryEstimate::communication);
      walk_.free(elements * question_.element_size, &MemoryEstimate::communication);
    }
  }

  void use(size_t index) {
    const LayerUse& use = program_.uses[index];
    const size_t layer = part_.layers[static_cast<size_t>(use.layer)];
    state_.run(events_.before(index));
    walk_layer(walk_, sizes_, blueprint_.layers[layer].kind, use.pass);
    state_.run(events_.after(index));
  }

  void end(const Action& action) {
    if (action.kind == Kind::F && action.stage == schedule_.stages - 1)
      walk_.free(sizes_.token_value);  // the loss, once it is summed
    if (--actions_left_[action.micro] == 0) walk_.free(sizes_.ids);
  }

  MemoryWalk& walk_;
  const Blueprint& blueprint_;
  const MemoryQuestion& question_;
  ActivationSizes sizes_;
  const Schedule& schedule_;
  RankPart part_;
  RankProgram program_;
  GroupPlan plan_;
  StateWalk state_;
  StateProgram events_;
  std::map<int, int> actions_left_, actions_of_;  // compute actions, by micro
  int forward_ = 0, backward_ = 0;                // sends under way
  int64_t beginning_ = -1;                        // first action that is not discarded
  LooseEnds loose_;
};

}  // namespace

MemoryEstimate predict_memory(const Blueprint& blueprint, const MemoryQuestion& question) {
  const ModelConfig& model = blueprint.model;
  const int64_t rope = model.family == Family::Gpt2
                           ? 0
                           : 2 * model.seq * (model.head_dim / 2) * question.element_size;
  MemoryWalk walk;
  walk.take(rope + question.kernel_scratch, &MemoryEstimate::workspace);
  if (question.pipeline != nullptr) {
    ActionWalk(walk, blueprint, question, *question.pipeline).run();
  } else {
    const int micros = static_cast<int>(std::min(question.accumulation, kDistinctMicros));
    ActionWalk(walk, blueprint, question, serial_pipeline(blueprint, micros)).run();
  }
  return walk.most();
}

MemoryEstimate resident_memory(const Blueprint& blueprint, const MemoryQuestion& question) {
  MemoryWalk walk;
  const RankPart part = question.pipeline == nullptr
                            ? whole_model(blueprint)
                            : part_of(blueprint, *question.pipeline, question.pipeline_rank);
  StateWalk(walk, make_groups(blueprint, part), question);
  return walk.now();
}

}  // namespace sextant
