#include "train/layout_run.h"

#include <cstring>

#include "base/error.h"
#include "checkpoint/digest.h"
#include "tensor/copy.h"
#include "tensor/unrecorded.h"
#include "trace/race.h"
#include "train/world.h"

namespace sextant {
namespace {

// Calls f(elements of the slice, those of the whole tensor) for each contiguous run of them,
// without padding.
template <class Slice, class All, class F>
void for_each_run(const Slice& slice, const Range& range, All& all, F&& f) {
  auto& whole = all.at(slice.name);
  slice.fragment.for_each_run(range, [&](const Range& run, int64_t first) {
    const Range both =
        overlap({first, first + run.size()}, {0, static_cast<int64_t>(whole.size())});
    if (both.size() == 0) return;
    const int64_t at = run.begin - range.begin + both.begin - first;
    f(Range{at, at + both.size()},
      std::span(whole).subspan(static_cast<size_t>(both.begin), static_cast<size_t>(both.size())));
  });
}

// Flat elements of its region that a named tensor holds.
Range range_of(const NamedTensor& named) {
  return {named.first, named.first + named.tensor.elements()};
}

void take(Stream& stream, const Tensor& from, const auto& slice, const Range& range,
          GlobalTensors& all) {
  for_each_run(slice, range, all, [&](const Range& own, std::span<float> to) {
    copy_floats_to_host(stream, to, from.slice(own.begin, own.end));
  });
}

void give(Stream& stream, const Tensor& to, const auto& slice, const Range& range,
          const GlobalTensors& all) {
  for_each_run(slice, range, all, [&](const Range& own, std::span<const float> from) {
    Tensor part = to.slice(own.begin, own.end);
    copy_floats_from_host(stream, part, from);
  });
}

// Digests of a rank's part of a tensor: its own values, and those of the whole tensor there.
std::string digest_of_own(Stream& stream, const Tensor& tensor, const auto& slice,
                          const Range& range, const GlobalTensors& sizes) {
  std::vector<float> own(static_cast<size_t>(tensor.elements()));
  if (!own.empty()) copy_floats_to_host(stream, own, tensor);
  Digest digest;
  for_each_run(slice, range, sizes, [&](const Range& run, std::span<const float>) {
    digest.add(std::as_bytes(
        std::span(own).subspan(static_cast<size_t>(run.begin), static_cast<size_t>(run.size()))));
  });
  return digest.hex();
}

std::string digest_of_whole(const auto& slice, const Range& range, const GlobalTensors& all) {
  Digest digest;
  for_each_run(slice, range, all, [&](const Range&, std::span<const float> there) {
    digest.add(std::as_bytes(there));
  });
  return digest.hex();
}

// f(slice, its master weights) and f(named, its tensor) of all that an update changes beside the
// weights.
void for_each_updated(Trainer& trainer, auto&& master, auto&& state) {
  for (const OwnedSlice& slice : trainer.params().owned())
    if (slice.master) master(slice);
  for (const NamedTensor& named : trainer.optimizer().state()) state(named);
}

}  // namespace

LayoutRun::LayoutRun(const Config& config, const Loader& data, const Options& options,
                     Storage& storage, const Clock& clock)
    : config_(config),
      flight_(preflight(config, 0)),
      options_(options),
      world_(world_size(config.parallel), clock, {config.fault.deadline, nullptr}),
      ranks_(static_cast<size_t>(world_.size())) {
  world_.run([&](Communicator& world) {
    Rank& own = ranks_[static_cast<size_t>(world.rank())];
    if (config.run.transport == Transport::Nccl)
      own.nccl = std::make_unique<NcclWorld>(world, nccl_options(config, world.rank()));
    own.mesh =
        std::make_unique<Mesh>(own.nccl ? own.nccl->world() : world, mesh_shape(config_.parallel));
    TrainerOptions of_rank;
    if (!options_.micros.empty())
      of_rank.micros = options_.micros[static_cast<size_t>(data_rank(*own.mesh))];
    if (options_.traced_steps > 0) of_rank.recorder = &own.recorder;
    own.trainer =
        std::make_unique<Trainer>(config_, flight_, *own.mesh, data, storage, clock, of_rank);
    if (world.rank() == 0)
      own.trainer->on_record = [&](const StepRecord& record) { records_.push_back(record); };
    if (options_.is_watched) watch(*own.trainer);
    if (own.nccl) own.nccl->await_issued();
  });
}

// Ranks end their communicators of NCCL together.
LayoutRun::~LayoutRun() {
  if (config_.run.transport != Transport::Nccl) return;
  try {
    world_.run([&](Communicator& world) { ranks_[static_cast<size_t>(world.rank())].end(); });
  } catch (const Error&) {  // of a rank that failed before
  }
}

template <class F>
void LayoutRun::on_ranks(F&& f) {
  world_.run([&](Communicator& world) {
    Rank& own = ranks_[static_cast<size_t>(world.rank())];
    f(*own.trainer);
    if (own.nccl) own.nccl->await_issued();
  });
}

void LayoutRun::watch(Trainer& trainer) {
  const auto rank = static_cast<size_t>(trainer.mesh().world().rank());
  // A watched step on a GPU may be a graph, which cannot wait for the host.
  if (trainer.stream().device().kind != DeviceKind::Cuda) trainer.model().statistics().watch();
  trainer.on_gradients = [this, &trainer, rank](int64_t step) {
    const Unrecorded unrecorded(trainer.arena());
    WatchedStep& watched = watched_.at(step);
    watched.samples[rank] = {trainer.samples().begin(), trainer.samples().end()};
    watched.weights_used[rank] = digests_of(trainer);
    watched.narrow_statistics[rank] = trainer.model().statistics().narrow();
    take_gradients(trainer, watched.gradients);
  };
  trainer.on_update = [this, &trainer, rank](int64_t step, double norm) {
    const Unrecorded unrecorded(trainer.arena());
    WatchedStep& watched = watched_.at(step);
    watched.norms[rank] = norm;
    watched.scales[rank] = trainer.gradient_scale();
    take_state(trainer, watched.after);
    watched.updated[rank] = digests_of_updated(trainer, watched.after);
    watched.amax_histories[rank] = amax_histories_of(trainer);
  };
}

void LayoutRun::train_step() {
  ++steps_;
  if (options_.is_watched) watched_[steps_] = new_watched();
  ChosenExperts* experts = options_.is_watched ? watched_[steps_].experts.get() : nullptr;
  on_ranks([&](Trainer& trainer) {
    if (steps_ > options_.traced_steps) trainer.arena().set_recorder(nullptr);
    trainer.executor().chosen_experts = experts;
    const std::optional<StepRecord> record = trainer.make_step();
    if (record && trainer.on_record) trainer.on_record(*record);
  });
}

void LayoutRun::finish_training() {
  on_ranks([&](Trainer& trainer) {
    const std::optional<StepRecord> record = trainer.finish_update();
    if (record && trainer.on_record) trainer.on_record(*record);
  });
}

// A step is complete when its record is final.
std::optional<WatchedStep> LayoutRun::next_watched() {
  if (watched_.empty() || watched_.begin()->first > static_cast<int64_t>(records_.size()))
    return {};
  WatchedStep step = std::move(watched_.begin()->second);
  const StepRecord& record = records_[static_cast<size_t>(watched_.begin()->first - 1)];
  step.loss = record.loss;
  step.loss_scale = record.loss_scale.value_or(1);
  step.is_skipped = record.is_skipped;
  watched_.erase(watched_.begin());
  return step;
}

std::vector<std::string> LayoutRun::races() const {
  std::vector<std::string> all;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const Trace& trace = ranks_[rank].recorder.trace();
    for (const Race& race : find_races(trace, 1))
      all.push_back(concat("rank ", rank, ": ", to_string(trace, race)));
  }
  return all;
}

double LayoutRun::compute_gradients(ChosenExperts* experts) {
  double loss = 0;
  on_ranks([&](Trainer& trainer) {
    trainer.executor().chosen_experts = flight_.blueprint.features.experts ? experts : nullptr;
    const double own = trainer.compute_gradients();
    trainer.executor().chosen_experts = nullptr;
    if (trainer.mesh().world().rank() == 0) loss = own;
  });
  return loss;
}

void LayoutRun::update_scaled(double gradient_scale) {
  on_ranks([&](Trainer& trainer) { trainer.update_scaled(gradient_scale); });
}

void LayoutRun::skip_update() {
  on_ranks([&](Trainer& trainer) { trainer.skip_update(); });
}

void LayoutRun::start_at(int64_t steps_done, const GlobalState& state,
                         const std::vector<std::vector<MicroSlice>>& micros) {
  records_.clear();
  steps_ = steps_done;
  on_ranks([&](Trainer& trainer) {
    trainer.params().await_weights();
    trainer.start_at(steps_done, micros[static_cast<size_t>(data_rank(trainer.mesh()))],
                     state.loss_scaler);
    trainer.params().for_each_kept([&](const Param& param, const Range& range, Tensor value) {
      give(trainer.stream(), value, param, range, state.weights);
    });
    for (const OwnedSlice& slice : trainer.params().owned())
      if (slice.master) give(trainer.stream(), slice.master, slice, slice.range, state.masters);
    for (NamedTensor& named : trainer.optimizer().state())
      give(trainer.stream(), named.tensor, named, range_of(named), state.optimizer);
    for (NamedTensor& named : trainer.params().delayed().state())
      copy_floats_from_host(trainer.stream(), named.tensor, state.amax_histories.at(named.name));
    trainer.params().delayed().was_filled(trainer.stream());
  });
}

WatchedStep LayoutRun::new_watched() const {
  WatchedStep step;
  step.gradients = new_tensors();
  step.after = new_state();
  step.norms.resize(ranks_.size());
  step.scales.resize(ranks_.size());
  step.samples.resize(ranks_.size());
  step.weights_used.resize(ranks_.size());
  step.updated.resize(ranks_.size());
  if (flight_.blueprint.features.experts) step.experts = std::make_unique<ChosenExperts>();
  step.amax_histories.resize(ranks_.size());
  step.narrow_statistics.resize(ranks_.size());
  return step;
}

GlobalTensors LayoutRun::new_tensors() const {
  GlobalTensors all;
  for (const LayerSpec& layer : flight_.blueprint.layers)
    for (const ParamSpec& spec : layer.params)
      all[spec.name].resize(static_cast<size_t>(spec.valid_elements()));
  return all;
}

GlobalState LayoutRun::new_state() const {
  GlobalState all;
  all.weights = new_tensors();
  const NumberTypes types = number_types(config_.precision);
  if (types.master != types.compute) all.masters = new_tensors();
  for (const Rank& rank : ranks_)
    for (const NamedTensor& named : rank.trainer->optimizer().state())
      all.optimizer[named.name].resize(
          static_cast<size_t>(named.shape.elements() / named.shape[0] * named.valid_rows));
  for (const Rank& rank : ranks_)
    for (const NamedTensor& named : rank.trainer->params().delayed().state())
      all.amax_histories[named.name].resize(static_cast<size_t>(named.tensor.elements()));
  return all;
}

GlobalTensors LayoutRun::amax_histories_of(Trainer& trainer) {
  GlobalTensors all;
  for (const NamedTensor& named : trainer.params().delayed().state()) {
    std::vector<float>& values = all[named.name];
    values.resize(static_cast<size_t>(named.tensor.elements()));
    copy_floats_to_host(trainer.stream(), values, named.tensor);
  }
  return all;
}

void LayoutRun::take_gradients(Trainer& trainer, GlobalTensors& all) {
  for (const OwnedSlice& slice : trainer.params().owned())
    if (slice.is_saved) take(trainer.stream(), slice.grad, slice, slice.range, all);
}

// The owner's weights, which need no all-gather.
void LayoutRun::take_state(Trainer& trainer, GlobalState& all) {
  if (trainer.mesh().world().rank() == 0) all.loss_scaler = trainer.loss_scaler().state();
  for (const OwnedSlice& slice : trainer.params().owned())
    if (slice.is_saved) {
      take(trainer.stream(), slice.value, slice, slice.range, all.weights);
      if (slice.master) take(trainer.stream(), slice.master, slice, slice.range, all.masters);
    }
  for (const NamedTensor& named : trainer.optimizer().state(Optimizer::Which::Saved))
    take(trainer.stream(), named.tensor, named, range_of(named), all.optimizer);
  for (const NamedTensor& named : trainer.saved_amax_histories())
    copy_floats_to_host(trainer.stream(), all.amax_histories.at(named.name), named.tensor);
}

GlobalTensors LayoutRun::gradients() {
  GlobalTensors all = new_tensors();
  on_ranks([&](Trainer& trainer) { take_gradients(trainer, all); });
  return all;
}

GlobalState LayoutRun::state() {
  GlobalState all = new_state();
  on_ranks([&](Trainer& trainer) { take_state(trainer, all); });
  return all;
}

void LayoutRun::set_gradients(const GlobalTensors& gradients) {
  on_ranks([&](Trainer& trainer) {
    for (OwnedSlice& slice : trainer.params().owned())
      give(trainer.stream(), slice.grad, slice, slice.range, gradients);
  });
}

std::vector<std::string> LayoutRun::digests_of(Trainer& trainer) {
  std::vector<std::string> digests;
  std::vector<float> own;
  trainer.params().for_each_kept([&](const Param& param, const Range& range, const Tensor& value) {
    own.resize(static_cast<size_t>(value.elements()));
    copy_floats_to_host(trainer.stream(), own, value);
    Digest digest;
    const int64_t valid = param.whole.elements() / param.whole[0] * param.valid_rows;
    param.fragment.for_each_run(range, [&](const Range& run, int64_t first) {
      const int64_t size = overlap({first, first + run.size()}, {0, valid}).size();
      digest.add(std::as_bytes(std::span(own).subspan(static_cast<size_t>(run.begin - range.begin),
                                                      static_cast<size_t>(size))));
    });
    digests.push_back(digest.hex());
  });
  return digests;
}

std::vector<std::string> LayoutRun::digests_of_updated(Trainer& trainer, const GlobalState& sizes) {
  std::vector<std::string> digests;
  for_each_updated(
      trainer,
      [&](const OwnedSlice& slice) {
        digests.push_back(
            digest_of_own(trainer.stream(), slice.master, slice, slice.range, sizes.masters));
      },
      [&](const NamedTensor& named) {
        digests.push_back(
            digest_of_own(trainer.stream(), named.tensor, named, range_of(named), sizes.optimizer));
      });
  return digests;
}

std::vector<std::vector<std::string>> LayoutRun::kept_weights() {
  std::vector<std::vector<std::string>> digests(ranks_.size());
  on_ranks([&](Trainer& trainer) {
    trainer.params().await_weights();
    digests[static_cast<size_t>(trainer.mesh().world().rank())] = digests_of(trainer);
  });
  return digests;
}

std::map<std::string, std::vector<int>> LayoutRun::differing_replicas(
    const std::vector<std::vector<std::string>>& digests, const GlobalTensors& weights) {
  std::map<std::string, std::vector<int>> all;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    size_t next = 0;
    ranks_[rank].trainer->params().for_each_kept(
        [&](const Param& param, const Range& range, const Tensor&) {
          Digest digest;
          for_each_run(param, range, weights, [&](const Range&, std::span<const float> owners) {
            digest.add(std::as_bytes(owners));
          });
          if (digest.hex() != digests[rank][next++])
            all[param.name].push_back(static_cast<int>(rank));
        });
  }
  return all;
}

std::map<std::string, std::vector<int>> LayoutRun::differing_updates(
    const std::vector<std::vector<std::string>>& digests, const GlobalState& state) {
  std::map<std::string, std::vector<int>> all;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (digests[rank].empty()) continue;  // no update
    size_t next = 0;
    const auto compare = [&](const auto& slice, const Range& range, const GlobalTensors& whole) {
      std::vector<int>& found = all[slice.name];
      const bool differs = digest_of_whole(slice, range, whole) != digests[rank][next++];
      if (differs && (found.empty() || found.back() != static_cast<int>(rank)))
        found.push_back(static_cast<int>(rank));
    };
    for_each_updated(
        *ranks_[rank].trainer,
        [&](const OwnedSlice& slice) { compare(slice, slice.range, state.masters); },
        [&](const NamedTensor& named) { compare(named, range_of(named), state.optimizer); });
  }
  std::erase_if(all, [](const auto& entry) { return entry.second.empty(); });
  return all;
}

}  // namespace sextant
