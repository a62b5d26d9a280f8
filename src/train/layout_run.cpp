#include "train/layout_run.h"

#include <cstring>

#include "base/error.h"
#include "checkpoint/digest.h"
#include "tensor/copy.h"
#include "trace/race.h"

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

// What verify reads is no part of the step.
class Unrecorded {
 public:
  explicit Unrecorded(Arena& arena) : arena_(arena), recorder_(arena.recorder()) {
    arena_.set_recorder(nullptr);
  }
  ~Unrecorded() { arena_.set_recorder(recorder_); }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  Arena& arena_;
  TraceRecorder* recorder_;
};

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
    own.mesh = std::make_unique<Mesh>(world, mesh_shape(config_.parallel));
    TrainerOptions of_rank;
    if (!options_.micros.empty())
      of_rank.micros = options_.micros[static_cast<size_t>(data_rank(*own.mesh))];
    if (options_.traced_steps > 0) of_rank.recorder = &own.recorder;
    own.trainer =
        std::make_unique<Trainer>(config_, flight_, *own.mesh, data, storage, clock, of_rank);
    if (world.rank() == 0)
      own.trainer->on_record = [&](const StepRecord& record) { records_.push_back(record); };
    if (options_.is_watched) watch(*own.trainer);
  });
}

LayoutRun::~LayoutRun() = default;

template <class F>
void LayoutRun::on_ranks(F&& f) {
  world_.run([&](Communicator& world) { f(*ranks_[static_cast<size_t>(world.rank())].trainer); });
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
    watched.amax_histories[rank] = amax_histories_of(trainer);
  };
}

void LayoutRun::train_step() {
  ++steps_;
  if (options_.is_watched) watched_[steps_] = new_watched();
  on_ranks([&](Trainer& trainer) {
    if (steps_ > options_.traced_steps) trainer.arena().set_recorder(nullptr);
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

double LayoutRun::compute_gradients() {
  double loss = 0;
  on_ranks([&](Trainer& trainer) {
    const double own = trainer.compute_gradients();
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
    if (slice.is_saved) take(trainer.stream(), slice.value, slice, slice.range, all.weights);
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

}  // namespace sextant
