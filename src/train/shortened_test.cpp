// A rehearsal that leaves out equal cycles of the steady state, compared with one that runs every
// micro-batch: memory, traffic, and the allocations of the whole program.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/parse.h"
#include "support/counts.h"
#include "support/expect_error.h"
#include "support/random_layout.h"
#include "train/phantom.h"
#include "train/rehearsal.h"

namespace sextant {
namespace {

constexpr Program kAll[] = {Program::Step, Program::Evaluation, Program::Redo};

// The plan of a shortened program, written out, against the record of the whole one.
void expect_same_program(const ProgramPlan& plan, const ProgramPlan& whole, int64_t bytes,
                         const std::string& text) {
  ASSERT_EQ(plan.size(), static_cast<int64_t>(whole.lifetimes.size())) << text;
  AddressPlan offsets{{}, bytes};
  for (size_t i = 0; i < whole.lifetimes.size(); ++i) {
    const Lifetime one = plan.lifetime(static_cast<int64_t>(i)), &other = whole.lifetimes[i];
    ASSERT_TRUE(one.bytes == other.bytes && one.begin == other.begin && one.end == other.end)
        << "tensor " << i << " of " << text;
    offsets.offsets.push_back(plan.offset(static_cast<int64_t>(i)));
  }
  EXPECT_TRUE(is_sound(whole.lifetimes, offsets)) << text;
}

struct Shortened {
  int kinds = 0, left_out = 0;  // kinds of ranks, and those of which cycles were left out
};

void expect_same(const Config& config, const std::string& text, Shortened& seen) {
  Preflight flight = forecast(config, 0);
  for (int kind = 0; kind < flight.kinds.size(); ++kind) {
    const int rank = flight.kinds.representative(kind);
    const std::string where = concat("rank ", rank, " of ", text);
    const PhantomRank one = run_phantom(config, flight, rank);
    const PhantomRank all = run_phantom(config, flight, rank, {PhantomOptions::Micros::All});
    EXPECT_EQ(one.memory.categories(), all.memory.categories()) << where;
    EXPECT_EQ(one.memory.peak, all.memory.peak) << where;
    EXPECT_EQ(one.resident.categories(), all.resident.categories()) << where;
    EXPECT_EQ(one.traffic, all.traffic) << where;
    EXPECT_EQ(one.plan->resident, all.plan->resident) << where;
    EXPECT_EQ(one.plan->peak, all.plan->peak) << where;
    for (const Program program : kAll)
      expect_same_program((*one.plan)[program], (*all.plan)[program],
                          one.plan->reserved - one.plan->resident, where);
    ++seen.kinds;
    if (one.left_out > 0) ++seen.left_out;
  }
}

Config with_micros(Config config, int micros) {
  config.batch.accumulation = micros;
  config.batch.global = config.batch.micro * micros * data_ranks(config.parallel);
  return config;
}

TEST(Shortened, EveryScheduleIsExact) {
  for (const char* schedule :
       {"gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "interleaved-zb", "zb-v",
        "zb-auto", "v-half", "v-min", "dualpipe", "dualpipe-v"}) {
    const bool grows = std::string(schedule) == "gpipe" || std::string(schedule) == "looped-bfs";
    Shortened seen;
    for (const int micros : {48, 56}) {
      std::vector<std::string> settings = {"model.preset=tiny-llama",
                                           "parallel.pp=4",
                                           concat("parallel.schedule=", schedule),
                                           "parallel.split=balanced",
                                           "batch.micro=1",
                                           concat("batch.accumulation=", micros),
                                           "train.eval_every=1",
                                           "train.eval_batches=1000",
                                           "run.threads=1"};
      if (std::string(schedule).starts_with("interleaved")) settings.push_back("parallel.chunks=2");
      expect_same(parse_config("", "test", settings).config, concat(schedule, " ", micros), seen);
    }
    EXPECT_EQ(seen.left_out > 0, !grows) << schedule;
  }
}

TEST(Shortened, RandomLayoutsAreExact) {
  Shortened seen;
  int tried = 0;
  const int count = random_cases(100, 1000);
  for (uint64_t seed = 5000; tried < count; ++seed) {
    const RandomLayout layout(seed, 64);
    const Config config = with_micros(layout.config(), 24 + static_cast<int>(seed % 5) * 8);
    try {
      expect_same(config, concat("seed ", seed, ": ", layout.text()), seen);
    } catch (const Error& error) {  // not every number of micro-batches fits every schedule
      EXPECT_EQ(error.fault(), Fault::Config) << error.what();
      continue;
    }
    ++tried;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(seen.left_out, seen.kinds / 2);
}

// Sizes that routing decides are given to the phantom, so cycles are equal here too.
TEST(Shortened, ExpertsAreExact) {
  for (const char* layout :
       {"", "parallel.dp=2 parallel.ep=2", "parallel.tp=2 parallel.dp=2 parallel.ep=4",
        "parallel.shard=4 parallel.zero=3 parallel.ep=2", "parallel.shard=2 parallel.zero=2",
        "parallel.pp=2 parallel.dp=2 parallel.ep=2 memory.recompute=full",
        "parallel.pp=2 parallel.schedule=zb-h1 parallel.shard=2 parallel.ep=2 memory.experts=1.5",
        "parallel.pp=2 parallel.schedule=interleaved parallel.chunks=2 parallel.split=balanced"}) {
    std::vector<std::string> settings = {"model.preset=tiny-llama", "model.family=mixtral",
                                         "model.experts=8",         "model.experts_per_token=2",
                                         "model.expert_ffn=12",     "batch.micro=1",
                                         "batch.accumulation=48",   "train.eval_every=1",
                                         "train.eval_batches=1000", "run.threads=1"};
    if (*layout != '\0')
      for (const std::string& setting : split(layout, ' ')) settings.push_back(setting);
    Shortened seen;
    expect_same(parse_config("", "test", settings).config, layout, seen);
    EXPECT_EQ(seen.left_out, seen.kinds) << layout;
  }
}

TEST(Shortened, ABudgetEndsARehearsal) {
  const std::vector<std::string> settings = {"model.preset=tiny", "batch.micro=1",
                                             "batch.accumulation=3"};
  const Config config = parse_config("", "test", settings).config;
  const Preflight flight = forecast(config, 0);
  Budget few(100, "more than 100");
  EXPECT_ERROR(run_phantom(config, flight, 0, {.budget = &few}), Config, "more than 100");
  Budget enough(100'000, "more than 100000");
  EXPECT_NO_THROW(run_phantom(config, flight, 0, {.budget = &enough}));
  EXPECT_GT(enough.left(), 0);
  EXPECT_LT(enough.left(), 99'900);
  Budget bytes(50'000, "more than 50000 bytes");
  EXPECT_ERROR(trace_steps(config, flight, 0, flight.plans[0], &bytes), Config, "50000 bytes");
}

TEST(Shortened, ARefusalNamesTheSettingThatMakesItLong) {
  const auto refusal = [](std::vector<std::string> settings) {
    settings.insert(settings.end(), {"model.preset=llama-70b", "batch.micro=1"});
    Budget budget = rehearsal_budget(parse_config("", "test", settings).config, 1);
    try {
      budget.take(budget.left() + 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal({"batch.accumulation=4800"}).find("batch.accumulation = 4800"),
            std::string::npos);
  EXPECT_NE(refusal({"parallel.cp=1024"}).find("parallel.cp = 1024 in a ring"), std::string::npos);
  EXPECT_NE(refusal({"parallel.tp=64", "parallel.tp_overlap=true"})
                .find("parallel.tp = 64 with tp_overlap: parallel.tp_overlap = false"),
            std::string::npos);
}

}  // namespace
}  // namespace sextant
