#include "bench/calibrate_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parse.h"
#include "bench/op_samples.h"
#include "config/load.h"
#include "data/open_data.h"
#include "train/step_time.h"
#include "train/trainer.h"
#include "train/world.h"

namespace sextant {
namespace {

constexpr int kWarmUp = 2;

constexpr const char* kModel = R"(
[model]
family = "llama"
layers = 8
hidden = 320
heads = 8
kv_heads = 8
ffn = 864
vocab = 384
seq = 128
[batch]
global = 8
[data]
kind = "synthetic"
)";

struct Measured {
  std::vector<double> seconds, busy;
  std::vector<int64_t> peak, reserved;  // by rank
};

void measure(Measured& out, const Config& config, const Preflight& flight, int steps,
             Storage& storage, const Clock& clock, Log& log) {
  const Loader data = open_data(config, storage, log);
  const auto ranks = static_cast<size_t>(world_size(config.parallel));
  out.peak.resize(ranks);
  out.reserved.resize(ranks);
  run_world(config, clock, nullptr, [&](Communicator& world) {
    Mesh mesh(world, mesh_shape(config.parallel));
    Trainer trainer(config, flight, mesh, data, storage, clock);
    for (int i = 0; i < kWarmUp; ++i) trainer.train_step();
    world.control().barrier();
    for (int i = 0; i < steps; ++i) {
      const double begin = clock.now(), before = process_seconds();
      trainer.train_step();
      world.control().barrier();
      if (world.rank() != 0) continue;
      out.seconds.push_back(clock.now() - begin);
      out.busy.push_back(process_seconds() - before);
    }
    out.peak[static_cast<size_t>(world.rank())] = trainer.arena().peak();
    out.reserved[static_cast<size_t>(world.rank())] = trainer.arena().reserved();
  });
}

}  // namespace

std::vector<CheckLayout> check_layouts() {
  const std::vector<std::pair<std::string, std::string>> layouts = {
      {"1 rank", ""},
      {"1 rank, bf16", "precision.compute=bf16"},
      {"1 rank, recompute full", "memory.recompute=full"},
      {"dp 2", "parallel.dp=2"},
      {"dp 4", "parallel.dp=4"},
      {"dp 8", "parallel.dp=8"},
      {"dp 2, accumulation 4", "parallel.dp=2 batch.micro=1"},
      {"dp 2, recompute full", "parallel.dp=2 memory.recompute=full"},
      {"shard 2, ZeRO-1", "parallel.shard=2 parallel.zero=1"},
      {"shard 4, ZeRO-2", "parallel.shard=4 parallel.zero=2"},
      {"shard 2, ZeRO-3", "parallel.shard=2 parallel.zero=3"},
      {"shard 8, ZeRO-3", "parallel.shard=8 parallel.zero=3"},
      {"dp 2 shard 2, ZeRO-3", "parallel.dp=2 parallel.shard=2 parallel.zero=3"},
      {"tp 2", "parallel.tp=2"},
      {"tp 4, no sequence", "parallel.tp=4 parallel.sequence=false"},
      {"tp 8", "parallel.tp=8"},
      {"cp 2, ring", "parallel.cp=2 parallel.cp_kind=ring"},
      {"cp 4, ulysses", "parallel.cp=4 parallel.cp_kind=ulysses"},
      {"pp 2, 1f1b", "parallel.pp=2 batch.micro=1"},
      {"pp 4, gpipe", "parallel.pp=4 parallel.schedule=gpipe batch.micro=1"},
      {"pp 4, interleaved",
       "parallel.pp=4 parallel.schedule=interleaved parallel.chunks=2 batch.micro=1"},
      {"pp 4, zb-h1", "parallel.pp=4 parallel.schedule=zb-h1 batch.micro=1"},
      {"pp 8, 1f1b", "parallel.pp=8 batch.micro=1"},
      {"dp 2 tp 2 pp 2", "parallel.dp=2 parallel.tp=2 parallel.pp=2 batch.micro=1"},
      {"tp 2 cp 2, bf16", "parallel.tp=2 parallel.cp=2 precision.compute=bf16"},
      {"experts, shard 2 ep 2",
       "model.family=mixtral model.experts=4 model.experts_per_token=2 parallel.shard=2 "
       "parallel.ep=2"},
      {"experts, shard 4 ep 4",
       "model.family=mixtral model.experts=4 model.experts_per_token=2 parallel.shard=4 "
       "parallel.ep=4"}};
  std::vector<CheckLayout> out;
  for (const auto& [name, settings] : layouts)
    out.push_back({name, settings.empty() ? std::vector<std::string>{} : split(settings, ' ')});
  return out;
}

Config check_config(const CheckLayout& layout) {
  std::vector<std::string> settings = layout.settings;
  const auto has = [&](std::string_view key) {
    return std::ranges::any_of(settings,
                               [&](const std::string& one) { return one.starts_with(key); });
  };
  if (!has("batch.micro")) settings.push_back("batch.accumulation=1");
  return parse_config(kModel, "check", settings).config;
}

std::vector<CheckedLayout> check_layouts(const Machine& machine, int steps, int rounds,
                                         Storage& storage, const Clock& clock, Log& log) {
  const std::vector<CheckLayout> layouts = check_layouts();
  std::vector<CheckedLayout> out;
  std::vector<Measured> measured(layouts.size());
  for (const CheckLayout& layout : layouts) {
    const Config config = check_config(layout);
    CheckedLayout& one = out.emplace_back();
    one.name = layout.name;
    one.ranks = world_size(config.parallel);
    MachineStep step = time_on_machine(config, preflight(config, 0), machine);
    one.predicted_s = step.time.seconds;
    one.assumed = std::move(step.assumed);
  }
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < layouts.size(); ++i) {
      log.progress(concat("round ", round + 1, " of ", rounds, ": ", layouts[i].name));
      const Config config = check_config(layouts[i]);
      const Preflight flight = preflight(config, 0);
      measure(measured[i], config, flight, steps, storage, clock, log);
      out[i].is_memory_exact = true;
      for (size_t rank = 0; rank < flight.memory.size(); ++rank) {
        out[i].is_memory_exact &= flight.memory[rank].peak == measured[i].peak[rank] &&
                                  flight.memory[rank].reserved == measured[i].reserved[rank];
        out[i].predicted_peak = std::max(out[i].predicted_peak, flight.memory[rank].peak);
      }
      out[i].measured_peak = std::ranges::max(measured[i].peak);
    }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].measured_s = lower_quartile(measured[i].seconds);
    out[i].busy_s = lower_quartile(measured[i].busy) / machine.cores;
  }
  return out;
}

double mean_error(const std::vector<CheckedLayout>& layouts) {
  double sum = 0;
  for (const CheckedLayout& layout : layouts) sum += std::abs(layout.error());
  return layouts.empty() ? 0 : sum / static_cast<double>(layouts.size());
}

bool is_memory_exact(const std::vector<CheckedLayout>& layouts) {
  return std::ranges::all_of(layouts,
                             [](const CheckedLayout& layout) { return layout.is_memory_exact; });
}

std::string check_report(const std::vector<CheckedLayout>& layouts) {
  std::string out =
      "| layout | ranks | predicted | measured | error | memory of the fullest rank |\n"
      "|---|---|---|---|---|---|\n";
  for (const CheckedLayout& one : layouts)
    out += fmt::format(
        "| {} | {} | {:.1f} ms | {:.1f} ms | {:+.1f} % | {}{} |\n", one.name, one.ranks,
        1e3 * one.predicted_s, 1e3 * one.measured_s, 100 * one.error(),
        format_bytes(one.measured_peak),
        one.is_memory_exact ? ", as predicted" : ", predicted " + format_bytes(one.predicted_peak));
  return out + fmt::format("\n{} layouts, mean error {:.1f} %, memory {}.\n", layouts.size(),
                           100 * mean_error(layouts),
                           is_memory_exact(layouts) ? "exact on every rank" : "not exact");
}

}  // namespace sextant
