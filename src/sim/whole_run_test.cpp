#include "sim/whole_run.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "sim/interruptions.h"

namespace sextant {
namespace {

constexpr double kDay = 24 * 3600;

TEST(Interruptions, TheTableHas419AndThreeHoursBetweenThem) {
  EXPECT_EQ(table_interruptions(), 419);
  EXPECT_NEAR(mean_time_between(16384, 1) / 3600, 3.09, 0.005);
  EXPECT_NEAR(mean_time_between(1, 1) / (365 * kDay), 5.8, 0.05);  // GPU-years
  EXPECT_DOUBLE_EQ(mean_time_between(8192, 1), 2 * mean_time_between(16384, 1));
  EXPECT_TRUE(std::isinf(mean_time_between(16384, 0)));
  int gpu = 0;
  for (const Interruption& one : interruption_table())
    if (one.category == "GPU") gpu += one.count;
  EXPECT_NEAR(gpu / 419.0, 0.64, 0.005);
}

WholeRun llama3() {
  WholeRun run;
  run.between = mean_time_between(16384, 1);
  run.checkpoint = 5;
  run.restart = 600;
  run.interval = 600;
  run.nodes = 2048;
  return run;
}

TEST(WholeRun, FiftyFourDaysHave419InterruptionsAndThePublishedEffectiveTime) {
  WholeRun run = llama3();
  run.work = 0.9 * 54 * kDay;
  const RunOutlook out = simulate_whole_run(run, 1, 100);
  EXPECT_NEAR(out.interruptions * 54 * kDay / out.seconds, 419, 8);
  EXPECT_GT(out.goodput, 0.90);  // "higher than 90 % effective training time"
  EXPECT_LT(out.goodput, 0.95);
}

TEST(WholeRun, TermsAddUp) {
  WholeRun run = llama3();
  run.work = 10 * kDay;
  run.slow_share = 0.0005;
  run.slow_factor = 1.2;
  const RunOutlook out = simulate_whole_run(run, 3, 10);
  EXPECT_NEAR(out.work, run.work, 1e-6 * run.work);
  EXPECT_NEAR(out.work + out.slow + out.checkpoints + out.lost + out.restarts, out.seconds,
              1e-6 * out.seconds);
  EXPECT_GT(out.slow, 0);
  EXPECT_LE(out.goodput_low, out.goodput);
  EXPECT_GE(out.goodput_high, out.goodput);
}

TEST(WholeRun, AgreesWithTheClosedForm) {
  for (const double between : {2000.0, 10000.0, 50000.0})
    for (const double interval : {300.0, 1800.0})
      for (const double restart : {0.0, 900.0}) {
        WholeRun run;
        run.work = 2000 * interval;
        run.between = between;
        run.checkpoint = 60;
        run.interval = interval;
        run.restart = restart;
        EXPECT_NEAR(simulate_whole_run(run, 7, 40).seconds / expected_seconds(run), 1, 0.015)
            << between << " " << interval << " " << restart;
      }
}

// Of a run of seconds, one seed in thousands is interrupted, and then waits minutes for the
// restart.
TEST(WholeRun, AShortRunLosesWhatIsExpectedWhateverTheSeed) {
  WholeRun run;
  run.work = run.interval = 11;
  run.restart = 600;
  for (const uint64_t seed : {0, 1, 2, 7, 1000}) {
    double before = 0;
    for (const double hours : {0.1, 1.0, 12.37, 100.0, 1e5}) {
      run.between = hours * 3600;
      const RunOutlook out = simulate_whole_run(run, seed, 50);
      EXPECT_NEAR(out.seconds / expected_seconds(run), 1,
                  hours < 1   ? 0.1
                  : hours < 2 ? 0.02
                              : 0.005)
          << hours;
      EXPECT_GT(out.goodput, before) << seed << " " << hours;
      EXPECT_LE(out.goodput_low, out.goodput);
      EXPECT_GE(out.goodput_high, out.goodput);
      before = out.goodput;
      if (hours != 12.37) continue;
      EXPECT_GT(out.goodput, 0.98);
      EXPECT_NEAR(out.interruptions, 11 / run.between, 0.1 * 11 / run.between);
    }
  }
}

TEST(WholeRun, WithoutInterruptionsOnlyCheckpointsCost) {
  WholeRun run;
  run.work = 1000;
  run.between = INFINITY;
  run.checkpoint = 10;
  run.interval = 100;
  const RunOutlook out = simulate_whole_run(run, 1, 1);
  EXPECT_DOUBLE_EQ(out.seconds, 1000 + 9 * 10);  // none after the last interval
  EXPECT_DOUBLE_EQ(out.interruptions, 0);
}

TEST(WholeRun, TheBestIntervalIsNearYoungAndDaly) {
  WholeRun run = llama3();
  run.work = 54 * kDay;
  run.checkpoint = 60;
  const double best = best_interval(run, 5, 20);
  const double young = young_interval(60, run.between), daly = daly_interval(60, run.between);
  EXPECT_NEAR(young, std::sqrt(2 * 60 * run.between), 1e-9);
  EXPECT_NEAR(best / daly, 1, 0.25);
  WholeRun at_best = run, at_daly = run;
  at_best.interval = best;
  at_daly.interval = daly;
  EXPECT_LE(simulate_whole_run(at_best, 5, 20).seconds,
            1.001 * simulate_whole_run(at_daly, 5, 20).seconds);
  EXPECT_NEAR(expected_seconds(at_best) / expected_seconds(at_daly), 1, 0.002);
}

TEST(WholeRun, ASlowNodeDelaysTheWholeJob) {
  WholeRun run = llama3();
  run.work = 5 * kDay;
  run.between = INFINITY;
  run.slow_share = 0.5;  // of 2,048 nodes: certain
  run.slow_factor = 1.25;
  const RunOutlook out = simulate_whole_run(run, 1, 1);
  EXPECT_NEAR(out.slow / out.work, 0.25, 1e-9);
}

TEST(WholeRun, RefusesARunThatNeverEnds) {
  WholeRun run = llama3();
  run.work = kDay;
  run.between = 10;
  EXPECT_THROW(simulate_whole_run(run, 1, 1), Error);
}

}  // namespace
}  // namespace sextant
