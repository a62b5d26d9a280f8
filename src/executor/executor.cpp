#include "executor/executor.h"

#include <algorithm>
#include <array>

#include "ops/add.h"
#include "program/pipeline.h"
#include "schedule/print.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

constexpr auto kSideSums = static_cast<int64_t>(SideSum::Count);

// residual + update as one tensor.
Tensor joined(Stream& stream, Hidden hidden) {
  if (!hidden.update) return std::move(hidden.residual);
  add(stream, hidden.update, hidden.update, hidden.residual);
  return std::move(hidden.update);
}

}  // namespace

Executor::Executor(Stream& stream, Transformer& model, const Pipeline& pipeline, Mesh& mesh,
                   const Programs& programs)
    : stream_(stream), model_(model), mesh_(mesh), rank_(mesh.at(Axis::Pp)) {
  if (programs.steps) step_ = make_plan(pipeline, programs.shortened);
  const int most = pipeline.schedule.micros;
  SXT_CHECK(programs.evaluations <= most, Internal, programs.evaluations,
            " micro-batches forward, ", most, " a step");
  if (programs.evaluations > 0)
    evaluation_ = make_plan(forward_only(pipeline, programs.evaluations), programs.shortened);
  sums_ = stream_.arena().allocate(Category::Workspace, DType::F64, {most * kSideSums});
  scalars_ = stream_.arena().allocate(Category::Workspace, DType::F64,
                                      {model_.expert_layers() > 0 ? 3 : 2});
  step_scalars_ = {scalars_.slice(0, 1), scalars_.slice(1, 2), 0,
                   scalars_.slice(2, scalars_.elements())};
  if (programs.steps && model_.expert_layers() > 0)
    routing_ =
        stream_.arena().allocate(Category::Workspace, DType::F64,
                                 {model_.expert_layers(), 3 + model_.blueprint().model.experts});
  const RankPart& part = model_.part();
  chunk_of_.resize(part.layers.size());
  for (size_t chunk = 0; chunk < part.chunks.size(); ++chunk)
    for (int64_t i = part.chunks[chunk].layers.begin; i < part.chunks[chunk].layers.end; ++i)
      chunk_of_[static_cast<size_t>(i)] = chunk;
  cells_.resize(part.chunks.size() * static_cast<size_t>(most));
  spares_.resize(part.chunks.size());
  micros_.resize(static_cast<size_t>(most));
  sums_on_host_.resize(static_cast<size_t>(sums_.elements()));
  losses_.reserve(static_cast<size_t>(most));
  if (routing_) routing_on_host_.resize(static_cast<size_t>(routing_.elements()));
  Communicator& ranks = mesh_.along(Axis::Pp);
  forward_ = {duplicate(ranks, "activations"), {}};
  backward_ = {duplicate(ranks, "gradients"), {}};
}

void Executor::run_step(std::span<const HostBatch> hosts, double loss_weight, int64_t step,
                        double aux_loss_weight) {
  set_step(loss_weight, step, aux_loss_weight);
  copy_scalars();
  how_.reset();
  model_.start_step(step_.state);
  run(step_, hosts);
}

std::span<double> Executor::evaluate(std::span<const HostBatch> hosts) {
  how_.reset();
  model_.start_evaluation(evaluation_.state);
  run(evaluation_, hosts);
  stream_.check_data();
  return losses();
}

Tensor Executor::forward(const HostBatch& host, const Forward& how) {
  set_step(1, how.step, 1);
  copy_scalars();
  how_ = how;
  model_.start_evaluation(evaluation_.state);
  run(evaluation_, {&host, 1});
  stream_.check_data();
  return std::move(output_);
}

void Executor::set_step(double loss_weight, int64_t step, double aux_loss_weight) {
  summed_ = step_.schedule.micros;
  step_scalars_.step = step;
  scalars_on_host_ = {loss_weight, static_cast<double>(step), aux_loss_weight};
}

void Executor::copy_scalars() {
  const std::span<const double> scalars(scalars_on_host_);
  copy_from_host<double>(stream_, scalars_,
                         scalars.first(static_cast<size_t>(scalars_.elements())));
}

void Executor::run(const Plan& plan, std::span<const HostBatch> hosts) {
  SXT_CHECK(static_cast<int>(hosts.size()) == plan.schedule.micros, Internal, hosts.size(),
            " micro-batches for a schedule of ", plan.schedule.micros);
  plan_ = &plan;
  hosts_ = hosts;
  start();
  const std::vector<RankProgram::Block>& blocks = plan.program.blocks;
  bool asks = must_begin_again && is_step();
  for (size_t at = 0; at < blocks.size(); ++at) {
    if (asks && at == plan.first_backward) {
      asks = false;
      if (must_begin_again()) {
        discard();
        model_.start_evaluation(plan.state);  // first use is next; gradients are unchanged
        start();
        at = 0;
      }
    }
    if (plan.steady.left_out > 0) {
      if (at == plan.steady.last()) {
        traffic_ = mesh_.world().ledger().traffic;
        stream_.arena().begin_cycle();
      } else if (at == plan.steady.leave) {
        leave_out_cycles();
        at = plan.steady.end();
        if (at == blocks.size()) break;
      }
    }
    run_block(blocks[at]);
  }
  for (Direction* direction : {&forward_, &backward_})
    while (!direction->in_flight.empty()) finish_send(*direction);
  activity().set("");
  model_.sharded().end_uses();
  summed_ = plan.schedule.micros;
  const int64_t sums = summed_ * kSideSums;
  copy_to_host_later<double>(stream_, std::span(sums_on_host_).first(static_cast<size_t>(sums)),
                             sums_.slice(0, sums));
  if (routing_ && is_step()) copy_to_host_later<double>(stream_, routing_on_host_, routing_);
}

std::span<double> Executor::losses() {
  losses_.resize(static_cast<size_t>(summed_));
  for (size_t micro = 0; micro < losses_.size(); ++micro)
    losses_[micro] = sums_on_host_[micro * kSideSums + static_cast<size_t>(SideSum::Loss)];
  return losses_;
}

void Executor::start() {
  actions_left_ = plan_->actions_of;
  fill_zero(stream_, sums_);
  if (routing_ && is_step()) fill_zero(stream_, routing_);
}

// Frees all activations of the forwards. Waits for pending receives first: memory that is written
// to cannot be freed.
void Executor::discard() {
  Ledger& ledger = mesh_.world().ledger();
  const SpanTimer timer(&ledger, "discard", "");
  stream_.arena().begin(Program::Redo);
  for (Cell& cell : cells_) {
    for (Saved& saved : cell.kept.saved) saved.clear();
    if (!cell.x_comes) cell.x = {};
    if (!cell.dy_comes) cell.dy = Tensor();
  }
  for (std::optional<MicroBatch>& micro : micros_) micro.reset();
  std::vector<Pending> ends;
  match_messages(ends);
  activity().set("the discarding of forwards, which waits for the other ends of messages");
  for (Cell& cell : cells_) {
    cell.x_comes.wait();
    cell.dy_comes.wait();
    cell.x = {};
    cell.dy = Tensor();
  }
  for (Direction* direction : {&forward_, &backward_})
    while (!direction->in_flight.empty()) finish_send(*direction);
  for (Pending& end : ends) end.wait();
  ends.clear();
  stream_.arena().end();
  stream_.arena().begin(Program::Step);
}

// Goes on after the cycles of the steady state: renames the micro-batches in flight, and counts as
// much traffic for each cycle as the last one had.
void Executor::leave_out_cycles() {
  const SteadyState& steady = plan_->steady;
  mesh_.world().ledger().traffic.repeat(traffic_, steady.left_out);
  const auto later = static_cast<size_t>(steady.left_out * steady.micros);
  const size_t most = micros_.size();
  for (auto micro = steady.in_flight.rbegin(); micro != steady.in_flight.rend(); ++micro) {
    const auto from = static_cast<size_t>(*micro), to = from + later;
    micros_[to] = std::exchange(micros_[from], {});
    const int done = plan_->actions_of[from] - actions_left_[from];
    actions_left_[to] = plan_->actions_of[to] - done;  // their backwards may be split differently
    for (size_t chunk = 0; chunk < cells_.size(); chunk += most)
      std::swap(cells_[chunk + to], cells_[chunk + from]);
  }
  model_.sharded().leave_out(steady.left_out * steady.uses);
  stream_.arena().leave_out(steady.left_out);
}

// Sends zeros for each receive that would get no message, and receives each send that was not
// expected. None of these blocks, so every rank gets this far.
void Executor::match_messages(std::vector<Pending>& ends) {
  const Schedule& schedule = plan_->schedule;
  Tensor zeros;
  for (const Action& receive : plan_->unmatched.to_send) {
    if (!zeros) {
      zeros = new_message(receive.micro);
      fill_zero(stream_, zeros);
    }
    Communicator& ranks = *(receive.kind == Kind::RecvF ? forward_ : backward_).ranks;
    ends.push_back(
        ranks.send(stream_, zeros, schedule.rank_of(receive.stage, receive.micro), When::Later));
  }
  for (const Action& send : plan_->unmatched.to_receive) {
    Tensor into = new_message(send.micro);
    Communicator& ranks = *(send.kind == Kind::SendF ? forward_ : backward_).ranks;
    ends.push_back(
        ranks.receive(stream_, into, schedule.rank_of(send.stage, send.micro), When::Later));
  }
}

void Executor::run_block(const RankProgram::Block& block) {
  const std::span<const Action> actions = std::span(plan_->program.actions)
                                              .subspan(static_cast<size_t>(block.actions.begin),
                                                       static_cast<size_t>(block.actions.size()));
  const Action& first = actions.front();
  if (first.kind == Kind::RecvF || first.kind == Kind::RecvB)
    receive(first);
  else if (first.kind == Kind::SendF || first.kind == Kind::SendB)
    send(first);
  else
    run_compute(block, actions);
  if (on_action && is_step())
    for (const Action& action : actions) on_action(action);
}

void Executor::run_compute(const RankProgram::Block& block, std::span<const Action> actions) {
  const Action& first = actions.front();
  for (const Action& action : actions) begin(action);
  const std::string& name = text_of(first).name;
  activity().set(name);
  {
    Ledger* ledger = &mesh_.world().ledger();
    const SpanTimer one(ledger, name.c_str(), "");
    const SpanTimer two(actions.size() > 1 ? ledger : nullptr, text_of(actions.back()).name.c_str(),
                        "");
    for (int64_t i = block.uses.begin; i < block.uses.end; ++i) use(i);
  }
  for (const Action& action : actions) end(action);
}

// Loads the micro-batch before the rank's first action on it, and waits for the action's input from
// another rank.
void Executor::begin(const Action& action) {
  const auto micro = static_cast<size_t>(action.micro);
  const ActionText& text = text_of(action);
  activity().set(text.name);
  if (actions_left_[micro] == plan_->actions_of[micro]) {
    if (on_micro && is_step()) on_micro(action.micro);
    MicroBatch& batch =
        micros_[micro].emplace(stream_, hosts_[micro].batch, hosts_[micro].seq, model_.context());
    batch.load(stream_, hosts_[micro], step_scalars_, is_step() ? z_loss : 0);
    batch.set_chosen_experts(is_step() ? chosen_experts : nullptr, hosts_[micro]);
    const Forward how = how_.value_or(Forward{});
    batch.set_output(is_step() ? HeadOutput::LossAndGradient : how.output, how.cache,
                     sums_.slice(action.micro * kSideSums, (action.micro + 1) * kSideSums),
                     is_step() ? routing_ : Tensor());
  }
  Cell& own = cell(action.stage, action.micro);
  Pending& comes = action.kind == Kind::F ? own.x_comes : own.dy_comes;
  if (!comes) return;
  const int rank = mesh_.world().rank();
  activity().set(text.waiting, text.waits_for);
  if (inject.kind != InjectionKind::NoReceiveWait) comes.wait();
  if (action.kind != Kind::F && inject.hits(InjectionKind::DoubledMessage, rank))
    add(stream_, own.dy, own.dy, own.dy);
}

// Passes the result to the next stage if it is on this rank, and frees the micro-batch after the
// rank's last action on it.
void Executor::end(const Action& action) {
  const auto micro = static_cast<size_t>(action.micro);
  Cell& own = cell(action.stage, action.micro);
  if (inject.kind == InjectionKind::NoReceiveWait) {  // too late
    own.x_comes.wait();
    own.dy_comes.wait();
  }
  if (action.kind == Kind::F && action.stage == plan_->schedule.stages - 1) {
    if (how_) output_ = std::move(own.x.residual);
    own.x = {};
  }
  const int next = consumer(plan_->schedule, action.kind, action.stage);
  if (next >= 0 && action.kind == Kind::F && crosses(plan_->schedule, action))
    own.x = {joined(stream_, std::move(own.x))};  // a message is one tensor
  if (next >= 0 && !crosses(plan_->schedule, action)) {
    Cell& other = cell(next, action.micro);
    if (action.kind == Kind::F)
      other.x = std::move(own.x);
    else
      other.dy = std::move(own.dy);
  }
  if (--actions_left_[micro] > 0) return;
  micros_[micro].reset();
  for (size_t chunk = 0; chunk < spares_.size(); ++chunk) {
    Activations& kept = cells_[chunk * micros_.size() + micro].kept;
    if (!kept.saved.empty()) spares_[chunk].push_back(std::exchange(kept, {}));
  }
}

void Executor::receive(const Action& action) {
  const bool forward = action.kind == Kind::RecvF;
  const int from = plan_->schedule.rank_of(action.stage + (forward ? -1 : 1), action.micro);
  Cell& own = cell(action.stage, action.micro);
  Tensor& into = forward ? own.x.residual : own.dy;
  into = new_message(action.micro);
  Communicator& ranks = *(forward ? forward_ : backward_).ranks;
  (forward ? own.x_comes : own.dy_comes) = ranks.receive(stream_, into, from, When::Later);
}

void Executor::send(const Action& action) {
  const bool forward = action.kind == Kind::SendF;
  Direction& direction = forward ? forward_ : backward_;
  Cell& own = cell(action.stage, action.micro);
  const Tensor what = std::move(forward ? own.x.residual : own.dy);
  const int to = plan_->schedule.rank_of(action.stage + (forward ? 1 : -1), action.micro);
  if (static_cast<int>(direction.in_flight.size()) == kSendsUnderWay) finish_send(direction);
  direction.in_flight.emplace_back(&text_of(action),
                                   direction.ranks->send(stream_, what, to, When::Later));
}

void Executor::finish_send(Direction& direction) {
  auto& [text, pending] = direction.in_flight.front();
  activity().set(text->waiting, text->waits_for);
  pending.wait();
  direction.in_flight.erase(direction.in_flight.begin());
}

Tensor Executor::new_message(int micro) {
  const HostBatch& host = hosts_[static_cast<size_t>(micro)];
  return stream_.arena().allocate(Category::Activations, model_.types().compute,
                                  model_.hidden_shape(host.batch * host.seq));
}

const Executor::ActionText& Executor::text_of(const Action& action) const {
  return plan_->texts[static_cast<size_t>(&action - plan_->program.actions.data())];
}

Executor::Cell& Executor::cell(int stage, int micro) {
  const auto chunk = static_cast<size_t>(plan_->schedule.chunk_of(stage, micro));
  return cells_[chunk * micros_.size() + static_cast<size_t>(micro)];
}

}  // namespace sextant
