#include "bench/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/error.h"
#include "base/parse.h"
#include "bench/machine.h"
#include "bench/op_samples.h"
#include "config/load.h"
#include "data/open_data.h"
#include "tensor/device.h"
#include "train/trainer.h"
#include "train/world.h"

namespace sextant {
namespace {

constexpr const char* kBase = R"(
[model]
layers = 2
vocab = 512
[data]
kind = "synthetic"
)";

// Small models that between them use every operation of a step, in sizes from those that stay in a
// core's cache to those that do not.
struct SampleModel {
  int64_t hidden, heads, seq, micro;
  std::vector<std::string> more;
  bool has_experts = false;
};

std::vector<SampleModel> one_rank_models() {
  const std::vector<std::string> gpt = {"model.family=gpt2"},
                                 llama = {"model.family=llama", "model.kv_heads=2"},
                                 experts = {"model.family=mixtral", "model.kv_heads=2",
                                            "model.experts=4", "model.experts_per_token=2"};
  const auto with = [](std::vector<std::string> a, const std::vector<std::string>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  return {{128, 2, 128, 2, gpt},
          {256, 4, 256, 1, gpt},
          {512, 8, 256, 2, gpt},
          {128, 2, 256, 2, llama},
          {256, 4, 128, 4, llama},
          {512, 8, 512, 1, llama},
          {256, 4, 256, 1, experts, true},
          {128, 4, 128, 2, experts, true},
          {128, 2, 128, 2, with(gpt, {"precision.compute=bf16"})},
          {256, 4, 256, 2, with(gpt, {"precision.compute=bf16"})},
          {128, 2, 128, 2, with(llama, {"precision.compute=bf16"})},
          {512, 8, 256, 1, with(llama, {"precision.compute=bf16"})},
          {256, 4, 256, 2, with(gpt, {"model.dropout=0.1"})}};
}

// Layouts whose operations one rank does not use; of two ranks.
std::vector<std::vector<std::string>> two_rank_layouts(const SampleModel& model) {
  if (model.has_experts) return {{"parallel.shard=2", "parallel.ep=2"}};
  return {{"parallel.tp=2"},
          {"parallel.cp=2", "parallel.cp_kind=ring"},
          {"parallel.cp=2", "parallel.cp_kind=ulysses"},
          {"parallel.shard=2", "parallel.zero=3"}};
}

class Calibrating {
 public:
  Calibrating(const CalibrateOptions& options, Storage& storage, const Clock& clock, Log& log)
      : options_(options), storage_(storage), clock_(clock), log_(log) {}

  void sample_round() {
    for (const int threads : thread_counts()) {
      const int ranks = options_.cores / threads;
      tell(fmt::format("GEMMs, {} x {} threads", ranks, threads));
      sample_products(options_.cores, threads, samples_);
      for (const SampleModel& model : one_rank_models())
        sample_steps(model, threads, {fmt::format("parallel.dp={}", ranks)});
      if (ranks < 2) continue;
      for (const SampleModel& model : one_rank_models())
        for (std::vector<std::string> layout : two_rank_layouts(model)) {
          layout.push_back(fmt::format("parallel.dp={}", ranks / 2));
          sample_steps(model, threads, layout);
        }
    }
    for (const int ranks : {options_.cores, std::max(8, 2 * options_.cores)}) {
      if (ranks < 2) continue;
      tell(fmt::format("collectives, {} ranks", ranks));
      sample_collectives(ranks, options_.cores, clock_, samples_);
    }
  }

  const OpSamples& samples() const { return samples_; }

 private:
  // 1, 2, 4, ... and all cores.
  std::vector<int> thread_counts() const {
    std::vector<int> out;
    for (int threads = 1; threads < options_.cores; threads *= 2) out.push_back(threads);
    out.push_back(options_.cores);
    return out;
  }

  void tell(const std::string& what) {
    if (options_.progress) options_.progress(what);
  }

  void sample_steps(const SampleModel& model, int threads, const std::vector<std::string>& layout) {
    std::vector<std::string> settings = {
        fmt::format("model.hidden={}", model.hidden),  fmt::format("model.heads={}", model.heads),
        fmt::format("model.ffn={}", 4 * model.hidden), fmt::format("model.seq={}", model.seq),
        fmt::format("batch.micro={}", model.micro),    "batch.accumulation=2",
        fmt::format("run.threads={}", threads)};
    settings.insert(settings.end(), model.more.begin(), model.more.end());
    settings.insert(settings.end(), layout.begin(), layout.end());
    tell(join(settings, " "));
    const Config config = parse_config(kBase, "calibrate", settings).config;
    const Preflight flight = preflight(config, 0);
    const Loader data = open_data(config, storage_, log_);
    std::mutex mutex;
    run_world(config, clock_, nullptr, [&](Communicator& world) {
      Mesh mesh(world, mesh_shape(config.parallel));
      OpTimer timer(threads);
      TrainerOptions of_trainer;
      of_trainer.recorder = &timer.recorder();
      Trainer trainer(config, flight, mesh, data, storage_, clock_, of_trainer);
      for (int step = 0; step <= options_.steps; ++step) {
        timer.counts = step > 0;
        trainer.train_step();
      }
      timer.finish();
      const std::lock_guard lock(mutex);
      samples_.add(timer.samples);
    });
  }

  const CalibrateOptions& options_;
  Storage& storage_;
  const Clock& clock_;
  Log& log_;
  OpSamples samples_;
};

}  // namespace

Calibration calibrate(const CalibrateOptions& asked, Storage& storage, const Clock& clock,
                      Log& log) {
  CalibrateOptions options = asked;
  if (options.cores == 0) options.cores = available_cores();
  SXT_CHECK(options.steps > 0 && options.rounds > 0, Usage,
            "bench calibrate: steps=", options.steps, " rounds=", options.rounds,
            ", both must be at least 1");
  Calibrating measuring(options, storage, clock, log);
  Calibration out;
  out.machine.cores = options.cores;
  for (int round = 0; round < options.rounds; ++round) {
    out.fma_peak = std::max(out.fma_peak, fma_peak(options.cores));
    out.fma_peak_bf16 = std::max(out.fma_peak_bf16, fma_peak(options.cores, DType::BF16));
    out.copy_rate = std::max(out.copy_rate, copy_bandwidth(options.cores));
    measuring.sample_round();
  }
  add_costs(out, measuring.samples().typical());
  return out;
}

void add_costs(Calibration& out, std::vector<CostSample> samples) {
  for (CostSample& sample : samples) {
    if (out.costs.empty() || out.costs.back().key != sample.key)
      out.costs.push_back({sample.key, {}, {}, 0});
    out.costs.back().samples.push_back(std::move(sample));
  }
  for (CalibratedCost& one : out.costs) {
    one.cost = fit_cost(one.samples);
    one.error = mean_error(one.cost, one.samples);
    out.machine.costs[one.key] = one.cost;
  }
}

}  // namespace sextant
