#include <fmt/format.h>

#include "base/error.h"
#include "base/parse.h"
#include "bench/calibrate.h"
#include "bench/gpu_ceilings.h"
#include "bench/op_samples.h"
#include "config/load.h"
#include "data/open_data.h"
#include "tensor/device.h"
#include "train/step_tracer.h"
#include "train/trainer.h"
#include "train/world.h"

namespace sextant {
namespace {

constexpr double kCalibrateWarmUpSeconds =
    0.7;  // of steps, until the clock is that of the power limit

// Models of few layers, as wide as those that fill a GPU; heads of 64 and 128.
struct GpuSampleModel {
  const char* family;
  int64_t hidden, heads, kv_heads, ffn, vocab, seq, micro;
};
constexpr GpuSampleModel kGpuModels[] = {
    {"gpt2", 896, 14, 14, 3584, 40064, 768, 64},   {"gpt2", 1280, 20, 20, 5120, 32000, 1280, 16},
    {"gpt2", 2304, 36, 36, 9216, 48000, 1536, 8},  {"llama", 1536, 24, 8, 6656, 64000, 2560, 8},
    {"llama", 2560, 40, 8, 9728, 100096, 6144, 2}, {"llama", 3072, 24, 8, 11264, 96000, 5120, 4},
    {"llama", 5120, 40, 8, 13824, 64000, 10240, 1}};

Config gpu_config_of(const GpuSampleModel& model) {
  std::vector<std::string> settings = {fmt::format("model.family={}", model.family),
                                       "model.layers=2",
                                       fmt::format("model.hidden={}", model.hidden),
                                       fmt::format("model.heads={}", model.heads),
                                       fmt::format("model.ffn={}", model.ffn),
                                       fmt::format("model.vocab={}", model.vocab),
                                       fmt::format("model.seq={}", model.seq),
                                       fmt::format("batch.micro={}", model.micro),
                                       fmt::format("batch.global={}", model.micro),
                                       "precision.compute=bf16",
                                       "data.kind=synthetic",
                                       "run.device=cuda"};
  if (model.kv_heads != model.heads)
    settings.push_back(fmt::format("model.kv_heads={}", model.kv_heads));
  return parse_config("", "calibrate", settings).config;
}

void add_op_samples(OpSamples& samples, const TimedTrace& timed) {
  for (size_t i = 0; i < timed.trace.ops.size() && i < timed.times.size(); ++i) {
    const TraceOp& op = timed.trace.ops[i];
    if (!timed.times[i].is_known() || op.lane != Trace::kCompute) continue;
    samples.add({operation_key(gpu_cost_name(timed.trace, op), type_of(timed.trace, op), 1),
                 op.flops, static_cast<double>(op.read), static_cast<double>(op.written), 0,
                 timed.times[i].seconds()});
  }
}

void sample_gpu_steps(const GpuSampleModel& model, int steps, OpSamples& samples, Storage& storage,
                      const Clock& clock, Log& log) {
  const Config config = gpu_config_of(model);
  const Preflight flight = preflight(config, 0);
  const Loader data = open_data(config, storage, log);
  run_world(config, clock, nullptr, [&](Communicator& world) {
    Mesh mesh(world, mesh_shape(config.parallel));
    Trainer trainer(config, flight, mesh, data, storage, clock);
    trainer.train_step();  // chooses the kernels of products
    for (const double begin = clock.now(); clock.now() - begin < kCalibrateWarmUpSeconds;)
      trainer.train_step();
    StepTracer tracer(trainer, clock);
    for (int step = 0; step <= steps; ++step) {
      const TimedTrace timed = tracer.trace([&] { trainer.train_step(); });
      if (step > 0) add_op_samples(samples, timed);
    }
  });
}

}  // namespace

Calibration calibrate_gpu(const CalibrateOptions& options, Storage& storage, const Clock& clock,
                          Log& log) {
  const GpuList list = list_gpus();
  SXT_CHECK(!list.gpus.empty(), Config, "bench calibrate --device cuda: ", list.why_none);
  SXT_CHECK(options.steps > 0 && options.rounds > 0, Usage,
            "bench calibrate: steps=", options.steps, " rounds=", options.rounds,
            ", both must be at least 1");
  Calibration out;
  out.gpu = list.gpus.front().name;
  out.machine.cores = 1;
  const GpuCeilings ceilings = measure_gpu_ceilings(DType::BF16, clock);
  out.fma_peak = out.fma_peak_bf16 = ceilings.product.per_s;
  out.copy_rate = ceilings.copy.per_s;
  OpSamples samples;
  for (int round = 0; round < options.rounds; ++round)
    for (const GpuSampleModel& model : kGpuModels) {
      if (options.progress)
        options.progress(fmt::format("{} of {} x {}, {} heads", model.family, model.micro,
                                     model.seq, model.heads));
      sample_gpu_steps(model, options.steps, samples, storage, clock, log);
    }
  add_costs(out, samples.typical());
  return out;
}

}  // namespace sextant
