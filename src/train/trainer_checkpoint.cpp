// Checkpoints of a Trainer.
#include <array>
#include <map>

#include "base/parse.h"
#include "checkpoint/directory.h"
#include "checkpoint/hf.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "tensor/copy.h"
#include "train/layout_text.h"
#include "train/same_model.h"
#include "train/trainer.h"

namespace sextant {

// This rank's training state as a checkpoint has it: weights, and their masters under the same
// names; with an optimizer its moments.
std::vector<NamedTensor> Trainer::kept_state(Optimizer* optimizer) {
  std::vector<NamedTensor> tensors;
  decide_update();
  params_.await_weights();
  params_.for_each_kept([&](const Param& param, const Range& range, const Tensor& value) {
    tensors.push_back(
        {param.name, value, param.valid_rows, param.whole, range.begin, param.fragment});
  });
  for (const OwnedSlice& slice : params_.owned())
    if (slice.master)
      tensors.push_back({slice.name, slice.master, slice.valid_rows, slice.shape, slice.range.begin,
                         slice.fragment});
  if (optimizer != nullptr)
    for (NamedTensor& tensor : optimizer->state()) tensors.push_back(std::move(tensor));
  if (optimizer != nullptr && scaler_state_)
    tensors.push_back({std::string(kLossScaleTensor), scaler_state_, LossScaler::kState});
  if (optimizer != nullptr)
    for (NamedTensor& tensor : params_.delayed().state()) tensors.push_back(std::move(tensor));
  return in_model_order(std::move(tensors), optimizer != nullptr);
}

// All ranks of a pipeline stage have the same.
std::vector<NamedTensor> Trainer::saved_amax_histories() {
  const bool is_duplicate = part_.is_second && part_.duplicates == RankPart::Duplicates::Mirror;
  if (mesh_.at(Axis::Tp) != 0 || mesh_.data().rank() != 0 || is_duplicate) return {};
  return params_.delayed().state();
}

// State of one precision: the loss scale of fp16, histories of fp8 scales.
void Trainer::add_optional(std::map<std::string, std::vector<NamedTensor>>& known,
                           std::vector<NamedTensor>& all) const {
  const auto add = [&](const std::string& name, const Shape& shape) {
    std::vector<NamedTensor>& own = known[name];
    if (own.empty()) own.push_back({name, Tensor(), shape[0], shape});
    all.push_back(own[0]);
  };
  if (scaler_state_) add(std::string(kLossScaleTensor), {LossScaler::kState});
  const NumberTypes types = number_types(config_.precision);
  if (!is_fp8(types.linear) || types.fp8.recipe != Fp8Recipe::Delayed) return;
  for (const LayerSpec& layer : preflight_.blueprint.layers)
    for (const ParamSpec& spec : layer.params)
      if (is_linear(layer, spec))
        add(concat(kAmaxHistory, spec.name),
            {kOperandKinds * (has_experts(spec) ? config_.model.experts : 1),
             1 + types.fp8.history});
}

// Every tensor of the run in the blueprint's order; empty where this rank has no part.
std::vector<NamedTensor> Trainer::in_model_order(std::vector<NamedTensor> tensors,
                                                 bool with_moments) const {
  std::map<std::string, std::vector<NamedTensor>> known;
  for (NamedTensor& tensor : tensors) known[tensor.name].push_back(std::move(tensor));
  std::vector<NamedTensor> all;
  const auto add = [&](const std::string& name, const ParamSpec& spec) {
    const Shape whole{std::span<const int64_t>(spec.whole)};
    std::vector<NamedTensor>& own = known[name];
    if (own.empty()) own.push_back({name, Tensor(), spec.valid_rows, whole, 0, {}});
    for (NamedTensor& tensor : own) all.push_back(std::move(tensor));
  };
  for (const LayerSpec& layer : preflight_.blueprint.layers)
    for (const ParamSpec& spec : layer.params) add(spec.name, spec);
  if (!with_moments) return all;
  add_optional(known, all);
  for (const LayerSpec& layer : preflight_.blueprint.layers)
    for (const ParamSpec& spec : layer.params)
      for (const std::string& name : moment_names(config_.optim, spec.name)) add(name, spec);
  return all;
}

void Trainer::save(const std::string& directory, const std::function<void()>& check_owner) {
  std::vector<NamedTensor> tensors;
  decide_update();
  params_.await_weights();
  for (const OwnedSlice& slice : params_.owned())
    if (slice.is_saved)
      tensors.push_back({slice.name, slice.precise_value(), slice.valid_rows, slice.shape,
                         slice.range.begin, slice.fragment});
  for (NamedTensor& tensor : optimizer_.state(Optimizer::Which::Saved))
    tensors.push_back(std::move(tensor));
  if (scaler_state_ && mesh_.world().rank() == 0) {
    copy_from_host<double>(stream_, scaler_state_, scaler_.state());
    tensors.push_back({std::string(kLossScaleTensor), scaler_state_, LossScaler::kState});
  }
  for (NamedTensor& tensor : saved_amax_histories()) tensors.push_back(std::move(tensor));
  tensors = in_model_order(std::move(tensors), true);
  CheckpointState state;
  state.step = step_;
  const Cursor cursor = data_.cursor(next_sample_);
  state.cursor = {cursor.epoch, cursor.index};
  state.seed = config_.train.seed;
  Config config = config_;
  // Token files tell their tokenizer; of the others the checkpoint keeps the files.
  if (config.data.kind == DataKind::Tokens && data_.tokenizer() == "bytes")
    config.data.tokenizer = data_.tokenizer();
  state.config = to_toml(config);
  state.layout = layout_text(config_);
  try {
    save_checkpoint(
        mesh_.world(), storage_, directory, state, tensors, stream_,
        {.keep = config_.checkpoint.keep, .check_owner = check_owner, .tokenizer = tokenizer_});
  } catch (const Error&) {
    // Rank 0 writes and reports the error; the others fail here with it.
    if (mesh_.world().rank() != 0) mesh_.world().control().barrier();
    throw;
  }
}

// That of the weights goes on: data of the same tokenizer may have fewer companions of it, or none
// of its files.
void Trainer::take_tokenizer(TokenizerFiles files, const TokenizerDigest& digest,
                             const std::string& weights) {
  check_same_tokenizer(digest, tokenizer_digest(data_), weights);
  if (!files.empty()) tokenizer_ = std::move(files);
}

void Trainer::check_same_run(const Manifest& manifest, const std::string& checkpoint) const {
  const Config stored = parse_config(manifest.state.config, checkpoint, {}).config;
  check_same_model(stored.model, config_.model, checkpoint);
  const auto name = [](OptimizerKind kind) { return kind == OptimizerKind::Sgd ? "sgd" : "adamw"; };
  SXT_CHECK(stored.optim.name == config_.optim.name, Data, checkpoint,
            " was made with optim.name = ", name(stored.optim.name), ", not ",
            name(config_.optim.name));
  SXT_CHECK(manifest.state.seed == config_.train.seed, Data, checkpoint,
            " was made with train.seed = ", manifest.state.seed, ", not ", config_.train.seed);
}

void Trainer::resume(const std::string& checkpoint) {
  const Manifest manifest = read_manifest(storage_, checkpoint);
  check_same_run(manifest, checkpoint);
  take_tokenizer(read_tokenizer(storage_, checkpoint, manifest),
                 tokenizer_digest(manifest, checkpoint), checkpoint);
  const DataCursor& cursor = manifest.state.cursor;
  SXT_CHECK(cursor.index < data_.samples(Split::Train), Data, checkpoint, " goes on at sample ",
            cursor.index, " of its data, but [data] has only ", data_.samples(Split::Train));
  std::vector<NamedTensor> tensors = kept_state(&optimizer_);
  // A checkpoint of another precision has no loss scale: this run's starts anew.
  if (scaler_state_) copy_from_host<double>(stream_, scaler_state_, scaler_.state());
  load_tensors(storage_, checkpoint, manifest, tensors, stream_, LoadWhat::All);
  if (scaler_state_) {
    std::array<double, LossScaler::kState> state{};
    copy_to_host<double>(stream_, state, scaler_state_);
    scaler_.set_state(state);
  }
  params_.delayed().was_filled(stream_);
  step_ = manifest.state.step;
  next_sample_ = data_.sample_at({cursor.epoch, cursor.index});
}

void Trainer::load_weights(const std::string& from) {
  std::vector<NamedTensor> tensors = kept_state(nullptr);
  const auto check_model = [&](const std::string& config) {
    check_same_model(parse_config(config, from, {}).config.model, config_.model, from);
  };
  if (is_hf_directory(storage_, from)) {
    Log silent(LogLevel::Quiet, Color::Never);
    read_hf_model(storage_, from, silent, [&](const HfModel& hf) {
      check_model(hf.config);
      take_tokenizer(hf.tokenizer, tokenizer_digest(hf.tokenizer), from);
      load_sources(from, hf.tensors, tensors, stream_);
    });
    return;
  }
  const Manifest manifest = read_manifest(storage_, from);
  check_model(manifest.state.config);
  take_tokenizer(read_tokenizer(storage_, from, manifest), tokenizer_digest(manifest, from), from);
  load_tensors(storage_, from, manifest, tensors, stream_, LoadWhat::Weights);
}

}  // namespace sextant
