#include "bench/step.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "bench/machine_peak.h"
#include "data/open_data.h"
#include "train/step_time.h"
#include "train/step_tracer.h"
#include "train/trainer.h"
#include "train/world.h"

namespace sextant {
namespace {

constexpr int kWarmUp = 3;
constexpr int kPeerSeconds = 900;  // timeout of a peer

// Page faults of this process so far.
int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

// The first timed step is a warm-up: its operations are issued, not launched as a graph.
TimedTrace time_step(Trainer& trainer, const Clock& clock) {
  StepTracer tracer(trainer, clock);
  tracer.trace([&] { trainer.train_step(); });
  return tracer.trace([&] { trainer.train_step(); });
}

// fp8 has none of its own here: its products are compared with their bytes alone.
Ceilings ceilings_of(const GpuCeilings& measured, ComputeType compute) {
  return {compute == ComputeType::Fp8 ? 0 : measured.product.per_s, measured.copy.per_s};
}

DType operands_of(ComputeType compute) {
  return compute == ComputeType::Fp32   ? DType::F32
         : compute == ComputeType::Fp16 ? DType::F16
                                        : DType::BF16;
}

OpTable compare(const TimedTrace& timed, const Ceilings& ceilings, const Machine* machine) {
  if (machine == nullptr) return op_table(timed.trace, timed.times, timed.step_s, ceilings);
  const MachineCosts costs(*machine, 1, 1);
  return op_table(timed.trace, timed.times, timed.step_s, ceilings,
                  [&](const TraceOp& op) { return costs.seconds_of(timed.trace, op); });
}

void predict(StepBench& out, const Config& config, const Preflight& flight,
             const Machine& machine) {
  MachineStep predicted = time_on_machine(config, flight, machine);
  out.predicted_s = predicted.time.seconds;
  out.assumed = std::move(predicted.assumed);
}

}  // namespace

StepBench bench_step(const Config& config, int steps, Storage& storage, const Clock& clock,
                     Log& log, const std::function<int64_t()>& heap_allocations,
                     TimeOperations time_operations, const Machine* machine) {
  SXT_CHECK(steps > 0, Usage, "bench step: ", steps, " steps, must be at least 1");
  SXT_CHECK(time_operations == TimeOperations::No || config.run.device == RunDevice::Cuda, Usage,
            "bench step --kernels: operations are timed on a GPU only, with --device cuda");
  StepBench out;
  out.steps = steps;
  out.peak_flops = machine_peak(config);
  const Preflight flight = preflight(config, out.peak_flops);
  const Loader data = open_data(config, storage, log);
  std::vector<double> seconds(static_cast<size_t>(steps));
  std::optional<TimedTrace> timed;
  run_world(config, clock, nullptr, [&](Communicator& world) {
    Mesh mesh(world, mesh_shape(config.parallel));
    Trainer trainer(config, flight, mesh, data, storage, clock);
    for (int i = 0; i < kWarmUp; ++i) trainer.train_step();
    double exposed = 0;
    std::vector<double> own(seconds.size());
    world.control().barrier();
    std::optional<GpuMeter> meter;
    if (config.run.device == RunDevice::Cuda) meter.emplace(0, clock).start();
    const int64_t faults = page_faults();
    const int64_t allocations = heap_allocations ? heap_allocations() : 0;
    for (double& second : own) {
      const StepRecord record = trainer.train_step();
      second = record.step_s;
      exposed += record.comm_exposed_s;
    }
    if (meter && world.rank() == 0) out.use = meter->stop();
    world.control().barrier();
    if (time_operations == TimeOperations::Yes) {
      TimedTrace own_step = time_step(trainer, clock);
      if (world.rank() == 0) timed = std::move(own_step);
    }
    if (world.rank() != 0) return;
    seconds = own;
    out.page_faults = page_faults() - faults;
    if (heap_allocations) out.heap_allocations = heap_allocations() - allocations;
    out.comm_exposed_s = exposed / steps;
    out.mem_peak = trainer.arena().peak();
  });
  if (timed) {
    out.ceilings = measure_gpu_ceilings(operands_of(config.precision.compute), clock);
    out.operations = compare(*timed, ceilings_of(*out.ceilings, config.precision.compute), machine);
  }
  if (machine != nullptr) predict(out, config, flight, *machine);
  std::sort(seconds.begin(), seconds.end());
  out.step_s = seconds[seconds.size() / 2];
  const auto tokens = static_cast<double>(config.batch.global * config.model.seq);
  const double flops = tokens * flight.blueprint.flops_per_token(config.model.seq);
  out.tokens_per_s = tokens / out.step_s;
  out.tflops = flops / out.step_s / 1e12;
  if (out.peak_flops > 0) out.mfu = flops / out.step_s / out.peak_flops;
  out.parameters = flight.blueprint.parameters();
  return out;
}

PeerStep run_peer(const std::string& command, const Config& config, int steps, int threads) {
  const ModelConfig& model = config.model;
  const std::string line = fmt::format("timeout {} {} {} {} {} {} {} {} {} {} {}", kPeerSeconds,
                                       command, model.layers, model.heads, model.hidden, model.ffn,
                                       model.vocab, config.batch.global, model.seq, steps, threads);
  std::FILE* pipe = ::popen(line.c_str(), "r");
  SXT_CHECK(pipe != nullptr, Failure, "cannot run ", line);
  std::string last, text;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
    text = buffer.data();
    if (text.find_first_not_of(" \n") != std::string::npos) last = text;
  }
  const int status = ::pclose(pipe);
  SXT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, Failure, "the peer failed: ", line);
  const nlohmann::json json = nlohmann::json::parse(last, nullptr, /*allow_exceptions=*/false);
  SXT_CHECK(json.is_object() && json.contains("tokens_per_s") && json["tokens_per_s"].is_number(),
            Failure, "the peer printed no {\"tokens_per_s\": ...}: ", line);
  return {json.value("name", command), json["tokens_per_s"].get<double>()};
}

}  // namespace sextant
