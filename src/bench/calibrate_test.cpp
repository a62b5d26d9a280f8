// The machinery with made-up rates: nothing here depends on how fast this machine is.
#include "bench/calibrate.h"

#include <gtest/gtest.h>

#include <random>

#include "bench/calibrate_check.h"
#include "bench/op_samples.h"
#include "plan/hardware.h"
#include "support/expect_error.h"
#include "train/phantom.h"
#include "train/step_time.h"

namespace sextant {
namespace {

std::vector<CostSample> samples_of(const OpCost& cost, double noise) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> relative(1 - noise, 1 + noise);
  std::vector<CostSample> out;
  for (const double size : {1e3, 1e4, 1e5, 1e6, 1e7})
    for (const double intensity : {1.0, 10.0, 100.0}) {
      CostSample s{"op", size * intensity, size, size / intensity, 0, 0};
      s.seconds = cost.of(s.flops, s.read, s.written, s.sent) * relative(random);
      out.push_back(s);
    }
  return out;
}

TEST(FitCost, FindsTheCostThatMadeTheSamples) {
  const OpCost made{.call = 2e-6, .flop = 1e-11, .read = 1e-10, .written = 3e-10};
  const std::vector<CostSample> samples = samples_of(made, 0);
  const OpCost found = fit_cost(samples);
  EXPECT_NEAR(found.call, made.call, 1e-6 * made.call);
  EXPECT_NEAR(found.flop, made.flop, 1e-6 * made.flop);
  EXPECT_NEAR(found.read, made.read, 1e-6 * made.read);
  EXPECT_NEAR(found.written, made.written, 1e-6 * made.written);
  EXPECT_LT(mean_error(found, samples), 1e-9);
}

TEST(FitCost, NoPartIsNegativeAndNoiseIsBorne) {
  const OpCost made{.call = 2e-6, .read = 1e-10};
  const std::vector<CostSample> samples = samples_of(made, 0.1);
  const OpCost found = fit_cost(samples);
  for (const double part : {found.call, found.flop, found.read, found.written, found.sent})
    EXPECT_GE(part, 0);
  EXPECT_LT(mean_error(found, samples), 0.1);
}

TEST(OpSamples, OneKindOfWorkIsOneSampleWithItsLowerQuartile) {
  OpSamples samples;
  for (const double seconds : {50.0, 3.0, 1.0, 70.0, 2.0, 9.0, 4.0, 5.0})
    samples.add({"op", 1, 2, 3, 0, seconds});
  samples.add({"op", 2, 2, 3, 0, 7});
  const std::vector<CostSample> typical = samples.typical();
  ASSERT_EQ(typical.size(), 2u);
  EXPECT_EQ(typical[0].seconds, 3);
  EXPECT_EQ(typical[1].seconds, 7);
  EXPECT_EQ(lower_quartile({}), 0);
}

// Every operation costs by what it does; messages and collectives cost nothing.
Machine made_up_machine(int cores) {
  Machine machine{"made up", cores, {}};
  machine.costs["copy-f32-1"] = {.call = 1e-5, .flop = 1e-10, .read = 1e-10, .written = 1e-10};
  return machine;
}

// Core seconds of the compute operations in a step, read off the phantom trace.
double work_of(const Config& config, const Preflight& flight, const Machine& machine) {
  const OpCost& cost = machine.costs.at("copy-f32-1");
  double sum = 0;
  for (int rank = 0; rank < world_size(config.parallel); ++rank) {
    const StepTraces steps =
        trace_steps(config, flight, rank, flight.plans[static_cast<size_t>(rank)]);
    for (size_t i = steps.second; i < steps.end; ++i) {
      const TraceOp& op = steps.trace.ops[i];
      if (op.lane == Trace::kCompute)
        sum += cost.of(op.flops, static_cast<double>(op.read), static_cast<double>(op.written), 0);
    }
  }
  return sum;
}

TEST(MachineStep, OneCoreDoesTheWorkOfAllRanks) {
  const Machine machine = made_up_machine(1);
  for (const CheckLayout& layout : check_layouts()) {
    if (layout.name != "1 rank" && layout.name != "tp 2" && layout.name != "pp 2, 1f1b") continue;
    std::vector<std::string> settings = layout.settings;
    settings.push_back("run.threads=1");
    const Config config = check_config({layout.name, settings});
    const Preflight flight = preflight(config, 0);
    // Collectives that are not measured cost nothing here, so all that is left is compute.
    const double work = work_of(config, flight, machine);
    EXPECT_NEAR(time_on_machine(config, flight, machine).time.seconds, work, 1e-6 * work)
        << layout.name;
  }
}

TEST(MachineStep, MoreCoresThanRanksChangeNothing) {
  const Config config = check_config({"dp", {"parallel.dp=4", "run.threads=1"}});
  const Preflight flight = preflight(config, 0);
  const double four = time_on_machine(config, flight, made_up_machine(8)).time.seconds;
  EXPECT_NEAR(time_on_machine(config, flight, made_up_machine(16)).time.seconds, four, 1e-9 * four);
  EXPECT_NEAR(time_on_machine(config, flight, made_up_machine(2)).time.seconds, 2 * four,
              0.01 * four);
}

TEST(CheckLayouts, ThereAreTwentyAndTheyUseAllAxes) {
  const std::vector<CheckLayout> layouts = check_layouts();
  EXPECT_GE(layouts.size(), 20u);
  ParallelConfig most;
  for (const CheckLayout& layout : layouts) {
    const ParallelConfig p = check_config(layout).parallel;
    EXPECT_LE(world_size(p), 8) << layout.name;
    most.dp = std::max(most.dp, p.dp);
    most.shard = std::max(most.shard, p.shard);
    most.zero = std::max(most.zero, p.zero);
    most.tp = std::max(most.tp, p.tp);
    most.cp = std::max(most.cp, p.cp);
    most.pp = std::max(most.pp, p.pp);
    most.ep = std::max(most.ep, p.ep);
  }
  for (const int degree : {most.dp, most.shard, most.tp, most.cp, most.pp, most.ep})
    EXPECT_GT(degree, 1);
  EXPECT_EQ(most.zero, 3);
}

TEST(Calibration, ItsFileIsReadByThePlannerAndTheSimulator) {
  Calibration made;
  made.machine = made_up_machine(2);
  made.fma_peak = made.fma_peak_bf16 = 2e11;
  made.copy_rate = 2e10;
  const std::string text = hardware_text(made);
  const Hardware hardware = parse_hardware(text, "m.toml");
  EXPECT_EQ(hardware.name, "made up");
  EXPECT_EQ(hardware.generation, GpuGeneration::Cpu);
  EXPECT_DOUBLE_EQ(hardware.bf16, 1e11);  // of a core
  EXPECT_EQ(hardware.node_gpus, 2);
  EXPECT_EQ(parse_machine(text, "m.toml").costs.size(), 1u);
  EXPECT_ERROR(parse_hardware(text + "typo = 1\n", "m.toml"), Config, "unknown key");
}

TEST(Calibration, RefusesNothingToMeasure) {
  DiskStorage storage;
  Log log(LogLevel::Quiet, Color::Never);
  const SystemClock clock;
  CalibrateOptions options;
  options.steps = 0;
  EXPECT_ERROR(calibrate(options, storage, clock, log), Usage, "steps=0");
}

}  // namespace
}  // namespace sextant
