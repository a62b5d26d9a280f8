#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "base/cache_directory.h"
#include "fault/deadline.h"
#include "fault/inject.h"
#include "ops/matmul_tuning.h"
#include "ops/update.h"
#include "optim/lr.h"
#include "tensor/copy.h"
#include "train/mistaken_part.h"
#include "train/mistaken_update.h"
#include "train/offload.h"
#include "train/run_device.h"

namespace sextant {
namespace {

BalanceUnit unit_of(BalanceScope scope) {
  switch (scope) {
    case BalanceScope::Sequence:
      return BalanceUnit::Sequence;
    case BalanceScope::Micro:
      return BalanceUnit::Micro;
    case BalanceScope::Global:
      return BalanceUnit::Global;
  }
  SXT_FAIL(Internal, "no such balance scope");
}

TransformerOptions model_options(const Config& config, const Preflight& preflight, const Mesh& mesh,
                                 const Injection& inject) {
  TransformerOptions options;
  options.types = number_types(config.precision);
  options.logits = config.memory.logits;
  options.zero = static_cast<ZeroStage>(config.parallel.zero);
  options.context = context_part(config.parallel, mesh.at(Axis::Cp));
  options.inject = inject;
  options.seed = config.train.seed;
  options.expert_capacity = preflight.expert_capacity;
  options.capacity_factor = config.train.capacity_factor;
  options.expert_node = config.parallel.ep_node;
  options.router_losses = {config.train.balance_loss, config.train.router_z_loss};
  options.balance_unit = unit_of(config.train.balance_scope);
  options.step_tokens = config.batch.global * config.model.seq;
  return options;
}

}  // namespace

std::vector<MicroSlice> micros_of(const Config& config, int first, int count) {
  std::vector<MicroSlice> micros;
  for (int rank = first; rank < first + count; ++rank)
    for (int micro = 0; micro < config.batch.accumulation; ++micro)
      micros.push_back(micro_slice(config.batch, data_ranks(config.parallel), rank, micro));
  return micros;
}

int data_rank(const Mesh& mesh) {
  return mesh.at(Axis::Dp) * mesh.shape().degree(Axis::Shard) + mesh.at(Axis::Shard);
}

namespace {

// Whether this rank's shard of the parameters is not that of the pre-flight's blueprint.
bool has_own_part(const ParallelConfig& parallel, const Mesh& mesh) {
  return mesh.at(Axis::Tp) != 0 ||
         expert_part(parallel, mesh.world_rank()) != expert_part(parallel, 0);
}

// Process groups over which the parameters are sharded. Experts are on all ranks of a stage.
std::vector<Communicator*> norm_groups(Mesh& mesh, const Injection& inject) {
  std::vector<Communicator*> groups;
  const auto add = [&](Communicator& group, bool is_left_out) {
    if (group.size() > 1 && !is_left_out) groups.push_back(&group);
  };
  const bool without_shard = inject.kind == InjectionKind::NormWithoutShard;
  const bool without_tp = inject.kind == InjectionKind::NormWithoutTp;
  if (mesh.shape().expert_size() > 1) {
    add(mesh.stage(), without_shard || without_tp);
  } else {
    add(mesh.along(Axis::Shard), without_shard);
    add(mesh.along(Axis::Tp), without_tp);
  }
  add(mesh.along(Axis::Pp), inject.kind == InjectionKind::NormWithoutPp);
  return groups;
}

Arena make_arena(const Config& config, const TrainerOptions& options, const Preflight& preflight,
                 int rank) {
  const Device device = options.device ? *options.device : run_device(config, rank);
  if (options.plan != nullptr) return Arena(device, options.plan);
  if (device.kind == DeviceKind::Phantom) return Arena(device, options.budget);
  return Arena(device, preflight.plans[static_cast<size_t>(rank)]);
}

}  // namespace

Trainer::Trainer(const Config& config, const Preflight& preflight, Mesh& mesh, const Loader& data,
                 Storage& storage, const Clock& clock, const TrainerOptions& options)
    : config_(config),
      inject_(parse_injection(config.fault.inject)),
      preflight_(preflight),
      mesh_(mesh),
      storage_(storage),
      clock_(clock),
      data_(data),
      tokenizer_(data.tokenizer_files()),
      arena_(make_arena(config, options, preflight, mesh.world().rank())),
      stream_(arena_, preflight.threads),
      offload_(make_offload(config, options.host_plan, stream_, preflight, mesh.world().rank())),
      own_blueprint_(has_own_part(config.parallel, mesh)
                         ? make_blueprint(config.model,
                                          tensor_part(config.parallel, mesh.at(Axis::Tp)),
                                          expert_part(config.parallel, mesh.world_rank()))
                         : std::optional<Blueprint>()),
      blueprint_(own_blueprint_ ? *own_blueprint_ : preflight.blueprint),
      part_(part_of(preflight.blueprint, preflight.pipeline, mesh.at(Axis::Pp))),
      params_(make_sharded(stream_, blueprint_, model_options(config, preflight, mesh, inject_),
                           mesh, part_)),
      model_(stream_, blueprint_, model_options(config, preflight, mesh, inject_), mesh, part_,
             params_),
      optimizer_(stream_, params_.owned(), config.optim, config.train.seed,
                 config.memory.offloads_optimizer() ? offload_.get() : nullptr),
      micros_(options.micros.empty() ? micros_of(config, data_rank(mesh), 1) : options.micros),
      host_(micros_.size()),
      sequence_part_(model_.context(), config.model.seq, window_of(config.model)),
      executor_(stream_, model_, preflight.pipeline, mesh,
                {true, evaluation_size(), options.shortened}),
      squares_(stream_, params_.owned(), norm_groups(mesh, inject_)),
      scaler_(config.precision) {
  if (!config.run.cudnn_backward) stream_.set_bits(Bits::Repeat);
  // Ranks must choose alike where they compute the same, and measurements differ.
  const bool is_tuned = mesh.world().size() == 1 && stream_.bits() == Bits::MayVary;
  tune_matmul(stream_, is_tuned ? cache_directory() : "");
  if (scaler_.is_used())
    scaler_state_ = stream_.arena().allocate(Category::Workspace, DType::F64, {LossScaler::kState});
  const int64_t held_out = data_.samples(Split::Eval);
  SXT_CHECK(config.train.eval_every == 0 || held_out >= config.batch.micro || stream_.is_phantom(),
            Data, "the held-out data has ", held_out,
            " samples, an evaluation needs batch.micro = ", config.batch.micro,
            "; a larger data.eval_fraction or train.eval_every = 0 would do");
  if (!stream_.is_phantom()) {
    model_.initialize(stream_, config.train.seed);
    optimizer_.take_masters(stream_);
  }
  executor_.inject = inject_;
  if (offload_ && config.memory.offloads_activations()) executor_.offload_to(*offload_);
  executor_.z_loss = config.train.z_loss;
  if (inject_.kind == InjectionKind::ZLossTimesTp) executor_.z_loss *= config.parallel.tp;
  executor_.on_micro = [this](int micro) { meet_injected_fault(micro); };
  if (config.optim.post_validation && mesh.shape().degree(Axis::Pp) > 1) {
    validation_.emplace(stream_, mesh, params_, optimizer_, config.optim,
                        static_cast<int>(micros_.size()));
    validation_->inject = inject_;
    executor_.must_begin_again = [this] {
      const bool has_changed = decide_update();
      if (record_ && on_record) on_record(*std::exchange(record_, {}));
      return has_changed && inject_.kind != InjectionKind::NoRedo;
    };
  }
  arena_.set_recorder(options.recorder);
}

bool Trainer::is_injected(InjectionKind kind) const {
  return inject_.hits(kind, -1, mesh_.world().rank(), step_ + 1);
}

// `micro` is -1 before the step starts.
void Trainer::meet_injected_fault(int micro) {
  if (micro != inject_.micro) return;
  const int rank = mesh_.world().rank();
  if (inject_.hits(InjectionKind::Die, -1, rank, step_ + 1)) std::raise(SIGKILL);
  if (inject_.hits(InjectionKind::GpuError, -1, rank, step_ + 1))
    stream_.queue().copy(nullptr, nullptr, 1);  // which CUDA refuses
  if (!inject_.hits(InjectionKind::Stall, -1, rank, step_ + 1)) return;
  // Until the others have timed out on this rank, and longer.
  const Deadline end(clock_, 2 * config_.fault.deadline);
  while (!end.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  mesh_.world().control().barrier();  // throws the peers' error
  SXT_FAIL(Failure, "rank ", rank, " stalled in step ", step_ + 1, ", as fault.inject asked");
}

void Trainer::load_batch() {
  samples_ = micros_;
  if (is_injected(InjectionKind::SameSamples)) samples_ = micros_of(config_, 0, 1);
  if (is_injected(InjectionKind::RepeatedMicro)) std::ranges::fill(samples_, samples_[0]);
  for (size_t i = 0; i < host_.size(); ++i) {
    samples_[i].first += next_sample_ + (is_injected(InjectionKind::ShiftedSamples) ? 1 : 0);
    fill(host_[i], Split::Train, samples_[i].first, samples_[i].count);
  }
}

// This rank's tokens of a micro-batch of `count` samples.
void Trainer::fill(HostBatch& host, Split split, int64_t first_sample, int64_t count) {
  const bool is_shared = model_.context().degree > 1;
  const bool drops = split == Split::Train && config_.model.dropout > 0;
  if (stream_.is_phantom()) {  // sizes only
    host.batch = config_.batch.micro;
    host.seq = config_.model.seq / model_.context().degree;
    host.is_numbered = drops;
    return;
  }
  HostBatch& whole = is_shared ? whole_ : host;
  data_.fill(whole, split, first_sample, count);
  pad_rows(whole, config_.batch.micro);
  if (drops || executor_.chosen_experts != nullptr)
    number_tokens(whole, first_sample - (is_injected(InjectionKind::LocalNumbers)
                                             ? next_sample_ + micros_[0].first
                                             : next_sample_));
  whole.is_numbered = drops;  // on the device
  if (is_shared) sequence_part_.take(host, whole);
  host.samples = count;
  if (!is_shared) return;
  if (split == Split::Train && is_injected(inject_.kind)) mistake_part(host, inject_.kind);
}

double Trainer::all_valid_tokens() {
  std::array<int64_t, 2> sums{0, wants_stop_ ? 1 : 0};
  int64_t& valid = sums[0];
  for (const HostBatch& host : host_)
    valid += stream_.is_phantom() ? host.batch * host.seq : valid_tokens(host);
  const int64_t own = valid;
  mesh_.data().control().all_reduce(std::span(sums), ReduceOp::Sum);
  stage_wants_stop_ = sums[1] > 0;
  SXT_CHECK(valid > 0, Data, "step ", step_ + 1,
            ": no token of the batch counts towards the loss; check the loss masks of the data");
  double tokens = static_cast<double>(valid);
  if (is_injected(InjectionKind::LocalTokens)) tokens = static_cast<double>(own);
  if (is_injected(InjectionKind::MeanOverRanks)) tokens *= data_ranks(config_.parallel);
  if (is_injected(InjectionKind::MeanOverMicros)) tokens *= static_cast<double>(micros_.size());
  return tokens;
}

// The rank with the last stage knows each micro-batch's loss. Summed in micro-batch order,
// whichever rank that is, then over the data parallel ranks.
double Trainer::sum_over_all(std::span<double> losses) {
  if (mesh_.shape().degree(Axis::Pp) > 1)
    mesh_.along(Axis::Pp).control().all_reduce(losses, ReduceOp::Sum);
  double total = std::accumulate(losses.begin(), losses.end(), 0.0);
  mesh_.data().control().all_reduce(std::span(&total, 1), ReduceOp::Sum);
  return total;
}

void Trainer::prepare_step() {
  meet_injected_fault(-1);
  load_batch();
  token_weight_ = 1 / all_valid_tokens();
}

double Trainer::loss_weight() const {
  if (is_injected(InjectionKind::Overflow)) return std::numeric_limits<double>::infinity();
  return token_weight_ * scaler_.scale();
}

// The step whose dropout masks are drawn.
int64_t Trainer::mask_step() const {
  return is_injected(InjectionKind::StaleMask) ? 0 : step_;
}

// Without waiting for the device.
void Trainer::issue_gradients() {
  arena_.begin(Program::Step);
  if (offload_) offload_->begin(Program::Step);
  executor_.run_step(host_, loss_weight(), mask_step(), aux_loss_weight());
  params_.finish_gradients(stream_);
  if (offload_) offload_->end();
  arena_.end();
  if (on_gradients) on_gradients(step_ + 1);
}

// Auxiliary losses are a mean over these units of the global batch.
int64_t Trainer::balance_units() const {
  if (config_.train.balance_scope == BalanceScope::Sequence) return config_.batch.global;
  return static_cast<int64_t>(micros_.size()) * data_ranks(config_.parallel);
}

double Trainer::aux_loss_weight() const {
  return scaler_.scale() / static_cast<double>(balance_units());
}

double Trainer::loss() {
  return sum_over_all(executor_.losses()) * token_weight_;
}

double Trainer::compute_gradients() {
  prepare_step();
  issue_gradients();
  stream_.check_data();
  return loss();
}

double Trainer::learning_rate_now() const {
  const int64_t step = is_injected(InjectionKind::EarlyRate) ? step_ + 1 : step_;
  return learning_rate(config_.optim, step, config_.train.steps);
}

// The squares of this pipeline rank.
void Trainer::issue_squares_ahead() {
  squares_.sum(stream_, squares_.groups() - 1);
  copy_to_host_later<double>(stream_, {&squares_on_host_, 1}, squares_.squares());
}

// Updates without waiting for the other pipeline ranks.
void Trainer::update_ahead() {
  validation_->update({step_, learning_rate_now(), squares_on_host_, executor_.losses(),
                       token_weight_, stage_wants_stop_});
  ++step_;
  next_sample_ += config_.batch.global;
}

// Returns whether the verdict has changed weights.
bool Trainer::decide_update() {
  if (!validation_ || !validation_->is_pending()) return false;
  const PostValidation::Outcome outcome = validation_->decide();
  is_stop_agreed_ = is_stop_agreed_ || outcome.stop;
  norm_ = outcome.norm;
  if (on_update) on_update(step_, norm_);
  if (record_) {
    record_->loss = outcome.loss;
    record_->grad_norm = outcome.norm;
  }
  return outcome.has_changed;
}

std::optional<StepRecord> Trainer::finish_update() {
  decide_update();
  return std::exchange(record_, {});
}

double Trainer::update() {
  if (validation_) {
    issue_squares_ahead();
    stream_.synchronize();
    update_ahead();
    decide_update();
    return norm_;
  }
  issue_update();
  stream_.synchronize();
  return finish_update_at_once();
}

Trainer::UpdateArguments Trainer::update_arguments() const {
  const int64_t update = step_ - scaler_.skipped();
  return {is_injected(InjectionKind::LateCorrection) ? update + 1 : update, learning_rate_now(),
          is_injected(InjectionKind::KeptLossScale) ? 1 : scaler_.scale()};
}

// Sums, clips and updates on the device; the host reads the norm afterwards.
void Trainer::issue_update() {
  squares_.sum(stream_);
  const UpdateArguments arguments = update_arguments();
  optimizer_.set_scalars(stream_, arguments.update, arguments.lr, 1, arguments.loss_scale);
  clip(stream_, optimizer_.scalars(), squares_.squares(),
       is_injected(InjectionKind::NoClip) ? 0 : config_.optim.clip);
  const bool is_stale = is_injected(InjectionKind::StaleGather);
  if (is_stale) params_.publish_weights(stream_);
  {
    const SpanTimer timer(&mesh_.world().ledger(), "optimizer", "");
    if (is_injected(inject_.kind))
      mistake_update(stream_, inject_.kind, params_, optimizer_);
    else
      optimizer_.step(stream_);  // no update when the norm is not finite
  }
  if (!is_stale) params_.publish_weights(stream_);
  copy_to_host_later<double>(stream_, {&squares_on_host_, 1}, squares_.squares());
}

double Trainer::finish_update_at_once() {
  norm_ = norm_of(squares_on_host_, scaler_.scale());
  if (!scaler_.is_used()) check_norm(step_ + 1, norm_);
  scaler_.update(std::isfinite(norm_));
  ++step_;
  next_sample_ += config_.batch.global;
  if (on_update) on_update(step_, norm_);
  return norm_;
}

}  // namespace sextant
