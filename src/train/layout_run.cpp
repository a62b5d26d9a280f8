#include "train/layout_run.h"

#include <cstring>

#include "tensor/copy.h"

namespace sextant {
namespace {

// Calls f(elements of the slice, offset in the whole tensor) for each contiguous run of them,
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

}  // namespace

LayoutRun::LayoutRun(const Config& config, const Loader& data,
                     std::vector<std::vector<MicroSlice>> micros, Storage& storage,
                     const Clock& clock)
    : config_(config),
      flight_(preflight(config, 0, {.counts_terms = true})),
      world_(world_size(config.parallel), clock, {config.fault.deadline, nullptr}),
      ranks_(static_cast<size_t>(world_.size())) {
  world_.run([&](Communicator& world) {
    Rank& own = ranks_[static_cast<size_t>(world.rank())];
    own.mesh = std::make_unique<Mesh>(world, mesh_shape(config_.parallel));
    const auto place = static_cast<size_t>(data_rank(*own.mesh));
    TrainerOptions options;
    options.counts_terms = true;
    if (!micros.empty()) options.micros = micros[place];
    own.trainer =
        std::make_unique<Trainer>(config_, flight_, *own.mesh, data, storage, clock, options);
  });
}

LayoutRun::~LayoutRun() = default;

template <class F>
void LayoutRun::on_ranks(F&& f) {
  world_.run([&](Communicator& world) { f(*ranks_[static_cast<size_t>(world.rank())].trainer); });
}

double LayoutRun::compute_gradients() {
  double loss = 0;
  on_ranks([&](Trainer& trainer) {
    const double own = trainer.compute_gradients();
    if (trainer.mesh().world().rank() == 0) loss = own;
  });
  return loss;
}

void LayoutRun::update() {
  on_ranks([](Trainer& trainer) { trainer.update(); });
}

// Replicas are equal: the first one is read. Its ranks write disjoint parts.
GlobalTensors LayoutRun::collect(Tensor OwnedSlice::*which) {
  GlobalTensors all;
  for (const LayerSpec& layer : flight_.blueprint.layers)
    for (const ParamSpec& spec : layer.params)
      all[spec.name].resize(static_cast<size_t>(spec.valid_elements()));
  on_ranks([&](Trainer& trainer) {
    trainer.params().await_weights();
    if (trainer.mesh().replicas().rank() != 0) return;
    for (const OwnedSlice& slice : trainer.params().owned())
      if (slice.counts) take(trainer.stream(), slice.*which, slice, slice.range, all);
  });
  return all;
}

GlobalTensors LayoutRun::gradients() {
  return collect(&OwnedSlice::grad);
}

GlobalTensors LayoutRun::weights() {
  return collect(&OwnedSlice::value);
}

GlobalTensors LayoutRun::moments() {
  GlobalTensors all;
  for (const Rank& rank : ranks_)
    for (const NamedTensor& state : rank.trainer->optimizer().state())
      all[state.name].resize(
          static_cast<size_t>(state.shape.elements() / state.shape[0] * state.valid_rows));
  on_ranks([&](Trainer& trainer) {
    if (trainer.mesh().replicas().rank() != 0) return;
    for (const NamedTensor& state : trainer.optimizer().state(Optimizer::Which::Counted))
      take(trainer.stream(), state.tensor, state, range_of(state), all);
  });
  return all;
}

std::map<std::string, double> LayoutRun::terms() {
  std::map<std::string, double> all;
  for (const Rank& rank : ranks_) {
    for (const Param& param : rank.trainer->params().params()) {
      double own = 0;
      copy_to_host<double>(rank.trainer->stream(), {&own, 1}, param.terms);
      all[param.name] += own;
    }
  }
  return all;
}

std::map<std::string, std::vector<int>> LayoutRun::differing_replicas(
    const GlobalTensors& weights) {
  std::map<std::string, std::vector<int>> all;
  for (const Rank& rank : ranks_) {
    Trainer& trainer = *rank.trainer;
    trainer.params().for_each_kept(
        [&](const Param& param, const Range& range, const Tensor& value) {
          bool is_same = true;
          for_each_run(param, range, weights, [&](const Range& run, std::span<const float> owners) {
            std::vector<float> own(owners.size());
            copy_floats_to_host(trainer.stream(), own, value.slice(run.begin, run.end));
            is_same = is_same && std::memcmp(own.data(), owners.data(), owners.size_bytes()) == 0;
          });
          if (!is_same) all[param.name].push_back(trainer.mesh().world().rank());
        });
  }
  return all;
}

void LayoutRun::set_gradients(const GlobalTensors& gradients) {
  on_ranks([&](Trainer& trainer) {
    for (OwnedSlice& slice : trainer.params().owned())
      give(trainer.stream(), slice.grad, slice, slice.range, gradients);
  });
}

void LayoutRun::set_state(const GlobalTensors& weights, const GlobalTensors& moments) {
  on_ranks([&](Trainer& trainer) {
    trainer.params().for_each_kept([&](const Param& param, const Range& range, Tensor value) {
      give(trainer.stream(), value, param, range, weights);
    });
    for (NamedTensor& state : trainer.optimizer().state())
      give(trainer.stream(), state.tensor, state, range_of(state), moments);
  });
}

}  // namespace sextant
