#pragma once
#include <string>
#include <vector>

#include "program/pipeline.h"
#include "support/pipelines.h"
#include "train/phantom.h"

namespace sextant {

// A gpt2 whose memory is counted by hand. Elements: embedding 128*4 + 3*4 = 524; the block 88 (norm
// 8, qkv 60, out 20) + 84 (norm 8, up 40, down 36) = 172; the head 8 + 128*4 = 520.
inline constexpr const char* kSmall = R"(
[model]
family = "gpt2"
layers = 1
hidden = 4
heads = 2
ffn = 8
vocab = 5
seq = 3
tied = false

[batch]
micro = 1
accumulation = 1

[data]
kind = "synthetic"

[run]
threads = 1
)";

inline Config small_config(const Settings& settings = {}) {
  return parse_config(kSmall, "test", settings).config;
}

inline Config preset_config(const std::string& preset, const Settings& settings = {}) {
  const Settings model = {"model.preset=" + preset, "batch.micro=1", "run.threads=1"};
  return parse_config("", "test", model + settings).config;
}

// What is counted by hand: without the scratch of kernels and other things of a rank's own.
inline MemoryEstimate without_workspace(MemoryEstimate memory) {
  memory.peak -= memory.workspace;
  memory.workspace = 0;
  return memory;
}

// What run_phantom needs of a pre-flight, with the pipeline of the configuration.
inline Preflight phantom_flight(const Config& config) {
  Preflight flight;
  flight.blueprint = make_blueprint(config.model, tensor_part(config.parallel, 0));
  flight.pipeline =
      make_pipeline(flight.blueprint, config.parallel, static_cast<int>(config.batch.accumulation));
  flight.threads = thread_count(config);
  return flight;
}

inline PhantomRank phantom_rank(const Config& config, int rank = 0) {
  return run_phantom(config, phantom_flight(config), rank);
}

// The most bytes of a rank of the phantom's steps.
inline MemoryEstimate phantom_memory(const Config& config, int rank = 0) {
  return without_workspace(phantom_rank(config, rank).memory);
}

// The small model with two blocks over two ranks: the embedding and a block, a block and the head.
// One rank makes the actions given, of its own stage; the other is not there.
inline MemoryEstimate run_stage(int rank, std::vector<Action> actions,
                                const Settings& settings = {}) {
  constexpr int kMicros = 4;
  const Config config = small_config(
      Settings{"model.layers=2", "parallel.pp=2", concat("batch.accumulation=", kMicros)} +
      settings);
  Preflight flight = phantom_flight(config);
  flight.pipeline.stages = {{0, 3}, {3, 6}};
  flight.pipeline.schedule = {"by hand", 2, kMicros, Placement::Loop, {{}, {}}};
  for (Action& action : actions) action.stage = rank;
  flight.pipeline.schedule.ranks[static_cast<size_t>(rank)] = std::move(actions);
  const int world_rank = rank * world_size(config.parallel) / 2;
  return without_workspace(run_phantom(config, flight, world_rank).memory);
}

inline Action act(Kind kind, int micro) {
  return {kind, 0, micro};
}

inline std::vector<Action> one_by_one(std::initializer_list<Kind> kinds, int micros) {
  std::vector<Action> actions;
  for (int micro = 0; micro < micros; ++micro)
    for (const Kind kind : kinds) actions.push_back(act(kind, micro));
  return actions;
}

// There and back, one micro-batch after the other, on the last rank and on the first.
inline std::vector<Action> on_last(int micros) {
  return one_by_one({Kind::RecvF, Kind::F, Kind::B, Kind::SendB}, micros);
}
inline std::vector<Action> on_first(int micros) {
  return one_by_one({Kind::F, Kind::SendF, Kind::RecvB, Kind::B}, micros);
}

}  // namespace sextant
