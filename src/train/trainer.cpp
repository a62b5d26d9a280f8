#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/directory.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "ops/sum.h"
#include "optim/clip.h"
#include "optim/lr.h"
#include "tensor/copy.h"
#include "train/same_model.h"

namespace sextant {

Trainer::Trainer(const Config& config, const Preflight& preflight, Storage& storage,
                 const Clock& clock, Log& log)
    : config_(config),
      preflight_(preflight),
      storage_(storage),
      clock_(clock),
      arena_(Device{}, preflight.memory_limit),
      stream_(arena_, preflight.threads),
      model_(stream_, preflight.blueprint, {DType::F32, config.memory.logits, true}),
      optimizer_(stream_, model_.params(), config.optim),
      data_(open_data(config, storage, log)),
      host_(static_cast<size_t>(config.batch.accumulation)),
      micro_(stream_, config.batch.micro, config.model.seq),
      activations_(model_.make_activations()),
      evaluator_(stream_, model_),
      loss_sum_(arena_.allocate(Category::Workspace, DType::F64, {1})),
      norm_sum_(arena_.allocate(Category::Workspace, DType::F64, {1})) {
  const int64_t held_out = data_.samples(Split::Eval);
  SXT_CHECK(config.train.eval_every == 0 || held_out >= config.batch.micro, Data,
            "the held-out data has ", held_out,
            " samples, an evaluation needs batch.micro = ", config.batch.micro,
            "; a larger data.eval_fraction or train.eval_every = 0 would do");
  model_.initialize(stream_, config.train.seed);
}

double Trainer::accumulate_gradients() {
  int64_t first = next_sample_, valid = 0;
  for (HostBatch& host : host_) {
    data_.fill(host, Split::Train, first, config_.batch.micro);
    first += config_.batch.micro;
    valid += valid_tokens(host);
  }
  SXT_CHECK(valid > 0, Data, "step ", step_ + 1,
            ": no token of the batch counts towards the loss; check the loss masks of the data");
  const double scale = 1 / static_cast<double>(valid);
  model_.start_step();
  Write write = Write::Replace;
  for (const HostBatch& host : host_) {
    const Micro& micro = micro_.load(stream_, host, scale);
    {
      const Tensor loss = model_.forward(stream_, micro, activations_);
      sum(stream_, loss_sum_, loss, write);
    }
    model_.backward(stream_, micro, activations_);
    write = Write::Add;
  }
  double total = 0;
  copy_to_host<double>(stream_, {&total, 1}, loss_sum_);
  return total * scale;
}

StepRecord Trainer::train_step() {
  const double start = clock_.now();
  StepRecord record;
  record.step = step_ + 1;
  record.loss = accumulate_gradients();
  record.grad_norm = gradient_norm(stream_, model_.params(), norm_sum_);
  record.lr = learning_rate(config_.optim, step_, config_.train.steps);
  SXT_CHECK(std::isfinite(record.loss) && std::isfinite(record.grad_norm), Failure, "step ",
            record.step, ": loss is ", record.loss, ", gradient norm ", record.grad_norm,
            "; a smaller optim.lr or a longer optim.warmup may help");
  optimizer_.step(stream_, step_, record.lr, clip_scale(record.grad_norm, config_.optim.clip));
  ++step_;
  next_sample_ += config_.batch.global;
  record.tokens = config_.batch.global * config_.model.seq;
  record.step_s = clock_.now() - start;
  const auto tokens = static_cast<double>(record.tokens);
  const double flops = tokens * preflight_.blueprint.flops_per_token(config_.model.seq);
  if (record.step_s > 0) {
    record.tokens_per_s = tokens / record.step_s;
    record.tflops = flops / record.step_s / 1e12;
    if (preflight_.peak_flops > 0) record.mfu = flops / record.step_s / preflight_.peak_flops;
  }
  record.mem_peak = arena_.peak();
  return record;
}

Evaluation Trainer::evaluate() {
  evaluator_.reset();
  HostBatch& host = host_.front();
  const int64_t micro = config_.batch.micro;
  const int64_t batches = std::min(config_.train.eval_batches, data_.samples(Split::Eval) / micro);
  for (int64_t i = 0; i < batches; ++i) {
    data_.fill(host, Split::Eval, i * micro, micro);
    evaluator_.add(stream_, micro_, host);
  }
  return evaluator_.result();
}

std::vector<NamedTensor> Trainer::weights() {
  std::vector<NamedTensor> tensors;
  for (const Param& param : model_.params())
    tensors.push_back({param.name, param.value, param.valid_rows});
  return tensors;
}

void Trainer::save(const std::string& directory) {
  std::vector<NamedTensor> tensors = weights();
  for (NamedTensor& tensor : optimizer_.state()) tensors.push_back(std::move(tensor));
  CheckpointState state;
  state.step = step_;
  const Cursor cursor = data_.cursor(next_sample_);
  state.cursor = {cursor.epoch, cursor.index};
  state.seed = config_.train.seed;
  state.config = to_toml(config_);
  save_checkpoint(storage_, directory, state, tensors, stream_, {.keep = config_.checkpoint.keep});
}

void Trainer::resume(const std::string& checkpoint) {
  const Manifest manifest = read_manifest(storage_, checkpoint);
  check_same_model(parse_config(manifest.state.config, checkpoint, {}).config.model, config_.model,
                   checkpoint);
  SXT_CHECK(manifest.state.seed == config_.train.seed, Data, checkpoint,
            " was made with train.seed = ", manifest.state.seed, ", not ", config_.train.seed);
  const DataCursor& cursor = manifest.state.cursor;
  SXT_CHECK(cursor.index < data_.samples(Split::Train), Data, checkpoint, " goes on at sample ",
            cursor.index, " of its data, but [data] has only ", data_.samples(Split::Train));
  std::vector<NamedTensor> tensors = weights();
  for (NamedTensor& tensor : optimizer_.state()) tensors.push_back(std::move(tensor));
  load_tensors(storage_, checkpoint, manifest, tensors, stream_, LoadWhat::All);
  step_ = manifest.state.step;
  next_sample_ = data_.sample_at({cursor.epoch, cursor.index});
}

void Trainer::load_weights(const std::string& checkpoint) {
  const Manifest manifest = read_manifest(storage_, checkpoint);
  check_same_model(parse_config(manifest.state.config, checkpoint, {}).config.model, config_.model,
                   checkpoint);
  std::vector<NamedTensor> tensors = weights();
  load_tensors(storage_, checkpoint, manifest, tensors, stream_, LoadWhat::Weights);
}

}  // namespace sextant
