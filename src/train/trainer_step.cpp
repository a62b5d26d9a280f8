// A whole step: issued operation by operation, or launched as a graph.
#include <cmath>
#include <utility>

#include "train/trainer.h"

namespace sextant {

// Steps are issued twice before one is recorded: libraries have then chosen their kernels. Steps of
// several ranks are issued: communicators over NCCL record calls, but a recorded step of two ranks
// that shared a GPU did not end, and none has run on several GPUs.
bool Trainer::is_recordable() const {
  return config_.run.graphs && stream_.is_gpu() && mesh_.world().size() == 1 && issued_ >= 2 &&
         !offload_ && !validation_ && !on_gradients && !config_.run.trace &&
         stream_.recorder() == nullptr && inject_.kind == InjectionKind::None;
}

// Launches the step's graph, recorded before if it does not exist or reads from other host memory.
// Ranks meet before, and record together: what they record they agree on call by call.
void Trainer::launch_step() {
  std::vector<const int32_t*> inputs;
  for (const HostBatch& host : host_)
    for (const auto* values : {&host.tokens, &host.targets, &host.positions, &host.starts,
                               &host.key_begin, &host.key_end, &host.indices})
      inputs.push_back(values->data());
  Communicator& world = mesh_.world();
  int64_t must_record = !graph_ || inputs != recorded_inputs_ ? 1 : 0;
  world.control().all_reduce(std::span(&must_record, 1), ReduceOp::Max);
  if (must_record > 0) {
    graph_ = std::make_unique<gpu::Graph>(stream_.queue(), stream_.staging());
    world.record(*graph_, stream_, [this] {
      issue_gradients();
      issue_update();
    });
    recorded_inputs_ = std::move(inputs);
    recorded_traffic_ = world.ledger().traffic;
  } else {
    world.ledger().traffic = recorded_traffic_;
  }
  executor_.set_step(loss_weight(), mask_step(), aux_loss_weight());
  const UpdateArguments arguments = update_arguments();
  optimizer_.set_scalars_on_host(arguments.update, arguments.lr, 1, arguments.loss_scale);
  world.launch(*graph_, stream_);
}

StepRecord Trainer::train_step() {
  std::optional<StepRecord> record = make_step();
  return record ? *record : *finish_update();
}

std::optional<StepRecord> Trainer::make_step() {
  const double start = clock_.now();
  Ledger& ledger = mesh_.world().ledger();
  ledger.reset();
  StepRecord record;
  record.step = step_ + 1;
  const SpanTimer timer(&ledger, "step", std::to_string(record.step), "step");
  record.lr = learning_rate_now();
  prepare_step();
  if (is_recordable()) {
    launch_step();
  } else {
    issue_gradients();
    if (validation_)
      issue_squares_ahead();
    else
      issue_update();  // the device skips it if the norm is not finite or the data are bad
    ++issued_;
  }
  stream_.check_data();  // without post-validation the only wait for the device in a step
  if (validation_) {
    update_ahead();
  } else {
    record.loss = loss();
    check_loss(record.step, record.loss);
    if (scaler_.is_used()) record.loss_scale = scaler_.scale();
    record.grad_norm = finish_update_at_once();
    record.is_skipped = !std::isfinite(record.grad_norm);
  }
  if (blueprint_.features.experts)
    record.routing = gather_routing(mesh_.world().control(), blueprint_, part_, executor_.routing(),
                                    balance_units());
  describe(record, clock_.now() - start);
  record.comm_s = ledger.busy_s;
  record.comm_exposed_s = ledger.exposed_s;
  record.sent = ledger.traffic;
  record.exposed = ledger.exposed_by_axis;
  if (!validation_) return record;
  record_ = record;
  return {};
}

void Trainer::describe(StepRecord& record, double seconds) const {
  record.tokens = config_.batch.global * config_.model.seq;
  record.step_s = seconds;
  const auto tokens = static_cast<double>(record.tokens);
  const double flops = tokens * preflight_.blueprint.flops_per_token(config_.model.seq);
  if (seconds > 0) {
    record.tokens_per_s = tokens / seconds;
    record.tflops = flops / seconds / 1e12;
    if (preflight_.peak_flops > 0) record.mfu = flops / seconds / preflight_.peak_flops;
  }
  record.mem_peak = arena_.peak();
}

}  // namespace sextant
