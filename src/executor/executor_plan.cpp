// What an executor derives from its schedule before the first step.
#include <utility>

#include "executor/executor.h"
#include "program/pipeline.h"
#include "schedule/print.h"

namespace sextant {
namespace {

// Where the stages are, without the lists of all ranks.
Schedule without_actions(const Schedule& schedule) {
  Schedule out;
  out.name = schedule.name;
  out.stages = schedule.stages;
  out.micros = schedule.micros;
  out.placement = schedule.placement;
  out.ranks.resize(schedule.ranks.size());
  return out;
}

}  // namespace

Executor::Plan Executor::make_plan(const Pipeline& pipeline, bool shortened) const {
  Plan plan;
  plan.schedule = without_actions(pipeline.schedule);
  plan.program = make_program(pipeline, model_.part(), rank_);
  plan.state = model_.sharded().make_program(plan.program.uses);
  plan.actions_of.resize(static_cast<size_t>(pipeline.schedule.micros));
  for (const Action& action : plan.program.actions)
    if (is_compute(action.kind)) ++plan.actions_of[static_cast<size_t>(action.micro)];
  plan.texts = make_texts(pipeline.schedule, plan.program);
  const auto first = static_cast<int64_t>(first_backward(plan.program.actions));
  const std::vector<RankProgram::Block>& blocks = plan.program.blocks;
  while (plan.first_backward < blocks.size() && blocks[plan.first_backward].actions.begin != first)
    ++plan.first_backward;
  plan.unmatched = unmatched_messages(pipeline.schedule, rank_);
  if (shortened) plan.steady = find_steady_state(pipeline.schedule, plan.program, plan.state);
  return plan;
}

// Built ahead, since steps allocate nothing. A phantom device needs no texts.
std::vector<Executor::ActionText> Executor::make_texts(const Schedule& schedule,
                                                       const RankProgram& program) const {
  std::vector<ActionText> texts(program.actions.size());
  if (stream_.is_phantom()) return texts;
  Done all(schedule);
  for (const std::vector<Action>& rank : schedule.ranks)
    for (const Action& action : rank) all.add(action);
  for (size_t i = 0; i < texts.size(); ++i) texts[i] = make_text(schedule, all, program.actions[i]);
  return texts;
}

Executor::ActionText Executor::make_text(const Schedule& schedule, const Done& all,
                                         const Action& action) const {
  const bool sends = action.kind == Kind::SendF || action.kind == Kind::SendB;
  const bool comes_up = action.kind == Kind::F || action.kind == Kind::SendB;
  Action other{action.kind == Kind::F ? Kind::F : Kind::B, action.stage + (comes_up ? -1 : 1),
               action.micro};
  ActionText text{describe(action), "", -1};
  if (other.stage < 0 || other.stage >= schedule.stages) return text;
  const int rank = schedule.rank_of(other.stage, other.micro);
  if (other.kind == Kind::B && all.has(other.stage, other.micro, bit(Kind::I)))
    other.kind = Kind::I;  // only the input gradient is needed
  text.waits_for = mesh_.along(Axis::Pp).world_rank(rank);
  text.waiting =
      sends ? concat(text.name, ", which rank ", text.waits_for, " has not taken")
            : concat(text.name, ", which waits for ", describe(other), " of rank ", text.waits_for);
  return text;
}

}  // namespace sextant
