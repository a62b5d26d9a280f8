#include "train/side.h"

#include <cstring>

#include "tensor/copy.h"

namespace sextant {
namespace {

// The elements of a slice as a part of its whole tensor.
std::span<float> part_of(GlobalTensors& all, const std::string& name, int64_t first, int64_t size) {
  return std::span(all.at(name)).subspan(static_cast<size_t>(first), static_cast<size_t>(size));
}
std::span<const float> part_of(const GlobalTensors& all, const std::string& name, int64_t first,
                               int64_t size) {
  return std::span(all.at(name)).subspan(static_cast<size_t>(first), static_cast<size_t>(size));
}

}  // namespace

Side::Side(const Config& config, const Loader& data, std::vector<std::vector<MicroSlice>> micros,
           Storage& storage, const Clock& clock)
    : config_(config),
      flight_(preflight(config, 0)),
      world_(world_size(config.parallel), clock, {config.fault.deadline, nullptr}),
      ranks_(static_cast<size_t>(world_.size())) {
  world_.run([&](Communicator& world) {
    Rank& own = ranks_[static_cast<size_t>(world.rank())];
    own.mesh = std::make_unique<Mesh>(world, mesh_shape(config_.parallel));
    const auto place = static_cast<size_t>(data_rank(*own.mesh));
    own.trainer =
        std::make_unique<Trainer>(config_, flight_, *own.mesh, data, storage, clock,
                                  micros.empty() ? std::vector<MicroSlice>() : micros[place]);
    own.trainer->model().count_terms(own.trainer->stream());
  });
}

Side::~Side() = default;

template <class F>
void Side::on_ranks(F&& f) {
  world_.run([&](Communicator& world) { f(*ranks_[static_cast<size_t>(world.rank())].trainer); });
}

double Side::compute_gradients() {
  double loss = 0;
  on_ranks([&](Trainer& trainer) {
    const double own = trainer.compute_gradients();
    if (trainer.mesh().world().rank() == 0) loss = own;
  });
  return loss;
}

void Side::update() {
  on_ranks([](Trainer& trainer) { trainer.update(); });
}

// Replicas have the same: the first speaks. Its ranks write parts of their own, side by side.
GlobalTensors Side::collect(Tensor OwnedSlice::*which) {
  GlobalTensors all;
  for (const LayerSpec& layer : flight_.blueprint.layers)
    for (const ParamSpec& spec : layer.params)
      all[spec.name].resize(static_cast<size_t>(spec.elements()));
  on_ranks([&](Trainer& trainer) {
    trainer.model().sharded().settle();
    if (trainer.mesh().at(Axis::Dp) != 0) return;
    for (const OwnedSlice& slice : trainer.model().sharded().owned())
      if (slice.counts)
        copy_to_host<float>(trainer.stream(),
                            part_of(all, slice.name, slice.range.begin, slice.range.size()),
                            slice.*which);
  });
  return all;
}

GlobalTensors Side::gradients() {
  return collect(&OwnedSlice::grad);
}

GlobalTensors Side::weights() {
  return collect(&OwnedSlice::value);
}

GlobalTensors Side::moments() {
  GlobalTensors all;
  for (const Rank& rank : ranks_)
    for (const NamedTensor& state : rank.trainer->optimizer().state())
      all[state.name].resize(static_cast<size_t>(state.shape.elements()));
  on_ranks([&](Trainer& trainer) {
    if (trainer.mesh().at(Axis::Dp) != 0) return;
    for (const NamedTensor& state : trainer.optimizer().state(Optimizer::Which::Counted))
      copy_to_host<float>(trainer.stream(),
                          part_of(all, state.name, state.first, state.tensor.elements()),
                          state.tensor);
  });
  return all;
}

std::map<std::string, double> Side::terms() {
  std::map<std::string, double> all;
  for (const Rank& rank : ranks_) {
    for (const Param& param : rank.trainer->model().params()) {
      double own = 0;
      copy_to_host<double>(rank.trainer->stream(), {&own, 1}, param.terms);
      all[param.name] += own;
    }
  }
  return all;
}

std::map<std::string, std::vector<int>> Side::strangers(const GlobalTensors& weights) {
  std::map<std::string, std::vector<int>> all;
  for (const Rank& rank : ranks_) {
    Trainer& trainer = *rank.trainer;
    trainer.model().sharded().for_each_kept([&](const Param& param, const Share& range,
                                                const Tensor& value) {
      std::vector<float> own(static_cast<size_t>(range.size()));
      copy_to_host<float>(trainer.stream(), own, value);
      const std::span<const float> owners = part_of(weights, param.name, range.begin, range.size());
      if (!own.empty() && std::memcmp(own.data(), owners.data(), owners.size_bytes()) != 0)
        all[param.name].push_back(trainer.mesh().world().rank());
    });
  }
  return all;
}

void Side::set_gradients(const GlobalTensors& gradients) {
  on_ranks([&](Trainer& trainer) {
    for (OwnedSlice& slice : trainer.model().sharded().owned())
      copy_from_host<float>(trainer.stream(), slice.grad,
                            part_of(gradients, slice.name, slice.range.begin, slice.range.size()));
  });
}

void Side::set_state(const GlobalTensors& weights, const GlobalTensors& moments) {
  on_ranks([&](Trainer& trainer) {
    trainer.model().sharded().for_each_kept(
        [&](const Param& param, const Share& range, Tensor value) {
          copy_from_host<float>(trainer.stream(), value,
                                part_of(weights, param.name, range.begin, range.size()));
        });
    for (NamedTensor& state : trainer.optimizer().state())
      copy_from_host<float>(trainer.stream(), state.tensor,
                            part_of(moments, state.name, state.first, state.tensor.elements()));
  });
}

}  // namespace sextant
