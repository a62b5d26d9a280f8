#include "bench/pipeline.h"

#include <gtest/gtest.h>

#include "config/load.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

class BenchPipeline : public ::testing::Test {
 protected:
  Config config_of(const std::string& schedule) {
    std::vector<std::string> settings = {"model.layers=4",
                                         "model.hidden=32",
                                         "model.heads=2",
                                         "model.vocab=128",
                                         "model.seq=8",
                                         "batch.global=4",
                                         "batch.micro=1",
                                         "data.kind=synthetic",
                                         "parallel.pp=2",
                                         "run.threads=1",
                                         "parallel.schedule=" + schedule};
    if (schedule == "interleaved") settings.push_back("parallel.chunks=2");
    return load_config(storage_, "", settings, {}).config;
  }
  DiskStorage storage_;
  SystemClock clock_;
  Log log_{LogLevel::Quiet, Color::Never};
};

TEST_F(BenchPipeline, RunsEachScheduleInItsOrderAndSimulatesIt) {
  for (const char* schedule : {"gpipe", "interleaved", "zb-h1", "zb-v", "dualpipe-v"}) {
    const PipelineRow row = bench_pipeline(config_of(schedule), 2, storage_, clock_, log_);
    EXPECT_EQ(row.schedule, schedule);
    EXPECT_EQ(row.steps.size(), 2u);
    EXPECT_FALSE(row.has_other_order()) << schedule;
    EXPECT_GT(row.measured_s(), 0);
    EXPECT_GT(row.simulated_s(), 0);
    EXPECT_GT(row.stage_work().first, 0) << schedule;
    EXPECT_GE(row.stage_work().second, 1) << schedule;
  }
}

TEST_F(BenchPipeline, RefusesWhatItCannotMeasure) {
  EXPECT_ERROR(bench_pipeline(config_of("1f1b"), 0, storage_, clock_, log_), Usage, "0 steps");
  Config config = config_of("1f1b");
  config.run.transport = Transport::Mpi;
  EXPECT_ERROR(bench_pipeline(config, 1, storage_, clock_, log_), Config, "threads");
}

PipelineRow row_of(double measured, double simulated) {
  PipelineRow row{"", std::vector<Comparison>(1)};
  row.steps[0].measured.makespan = measured;
  row.steps[0].simulated.makespan = simulated;
  return row;
}

TEST(PipelineRow, HasTheMedianOfItsStepsRatios) {
  PipelineRow row{"", {}};
  for (const auto& [measured, simulated] : {std::pair{10.0, 10.0}, {22.0, 20.0}, {90.0, 30.0}}) {
    row.steps.emplace_back();
    row.steps.back().measured.makespan = measured;
    row.steps.back().simulated.makespan = simulated;
  }
  EXPECT_DOUBLE_EQ(row.ratio(), 1.1);
  EXPECT_DOUBLE_EQ(row.measured_s(), 22);
  EXPECT_DOUBLE_EQ(row.simulated_s(), 20);
}

TEST(SameOrder, HoldsUnlessMeasuredTimesContradictClearlyDifferentSimulatedOnes) {
  using Rows = std::vector<PipelineRow>;
  EXPECT_TRUE(is_same_order(Rows{row_of(12, 10), row_of(8, 7), row_of(9, 8)}));
  EXPECT_FALSE(is_same_order(Rows{row_of(12, 10), row_of(8, 7), row_of(7.5, 8)}));
  EXPECT_TRUE(is_same_order(Rows{row_of(12, 10), row_of(13, 9.9)}));
  EXPECT_FALSE(is_same_order(Rows{row_of(12, 10), row_of(13, 9.9)}, 0.001));
  EXPECT_TRUE(is_same_order({}));
}

}  // namespace
}  // namespace sextant
