#include "program/state_program.h"

#include <gtest/gtest.h>

#include <set>

#include "base/parse.h"
#include "config/model_presets.h"
#include "program/pipeline.h"
#include "schedule/make_schedule.h"

namespace sextant {
namespace {

using Lines = std::vector<std::string>;

// Groups by layer. Layer 0 is an embedding, whose backward does not read the weights.
GroupPlan plan_of(std::vector<int> group_of_layer) {
  GroupPlan plan;
  plan.groups.resize(
      static_cast<size_t>(1 + *std::max_element(group_of_layer.begin(), group_of_layer.end())));
  plan.reads_in_backward.assign(group_of_layer.size(), true);
  plan.reads_in_backward[0] = false;
  plan.group_of_layer = std::move(group_of_layer);
  return plan;
}

// "F0.1 I2.0": forward of layer 0 for micro 1, then input gradient of layer 2 for micro 0.
std::vector<LayerUse> uses_of(const std::string& text) {
  std::vector<LayerUse> uses;
  for (const std::string& one : split(text, ' '))
    uses.push_back(
        {static_cast<Pass>(std::string("FBIWR").find(one[0])), one[1] - '0', one[3] - '0'});
  return uses;
}

// A first Reduce is marked <, a last one >.
std::string text(const StateEvent& event) {
  constexpr const char* kNames[] = {"await", "gather", "open",  "close",
                                    "begin", "reduce", "finish"};
  return kNames[static_cast<int>(event.step)] + std::to_string(event.group) +
         (event.is_first ? "<" : "") + (event.is_last ? ">" : "");
}

std::string text(const LayerUse& use) {
  return "FBIWR"[static_cast<int>(use.pass)] + std::to_string(use.layer) + "." +
         std::to_string(use.micro);
}

// One line per use, with the events before and after it; events at the end of the program have
// their own line.
Lines lines(const StateProgram& program) {
  Lines out;
  const auto add = [](std::string& line, const auto& events) {
    for (const StateEvent& event : events) line += (line.empty() ? "" : " ") + text(event);
  };
  for (size_t i = 0; i < program.size(); ++i) {
    std::string line;
    add(line, program.before(i));
    line += (line.empty() ? "" : " ") + text(program.use(i));
    add(line, program.after(i));
    out.push_back(line);
  }
  std::string end;
  add(end, program.at_end());
  if (!end.empty()) out.push_back(end);
  return out;
}

Lines lines(std::vector<int> group_of_layer, const std::string& uses, int zero) {
  return lines(StateProgram(plan_of(std::move(group_of_layer)), uses_of(uses), zero));
}

// Embedding, a block of two layers, untied head.
const std::vector<int> kUntied = {0, 1, 1, 2};
// The same with a tied embedding.
const std::vector<int> kTied = {0, 1, 1, 0};
constexpr const char* kThereAndBack = "F0.0 F1.0 F2.0 F3.0 B3.0 B2.0 B1.0 B0.0";

TEST(StateProgram, UndividedWeightsAreAwaitedAndGradientsReducedOnce) {
  const Lines wanted = {"await0 F0.0",    "await1 F1.0", "F2.0",           "await2 F3.0",
                        "B3.0 reduce2<>", "B2.0",        "B1.0 reduce1<>", "B0.0 reduce0<>"};
  EXPECT_EQ(lines(kUntied, kThereAndBack, 0), wanted);
  EXPECT_EQ(lines(kUntied, kThereAndBack, 1), wanted);
}

TEST(StateProgram, DividedGradientsAreMadeInBucketsOfWhichOneIsReduced) {
  EXPECT_EQ(
      lines(kUntied, kThereAndBack, 2),
      (Lines{"await0 F0.0", "await1 F1.0", "F2.0", "await2 F3.0", "begin2 B3.0 reduce2<>",
             "begin1 B2.0", "B1.0 finish2 reduce1<>", "begin0 B0.0 finish1 reduce0<>", "finish0"}));
}

// Embedding, attention, experts that use the block's group and one of their own, head.
TEST(StateProgram, ExpertsAreGatheredAndReducedAsAGroupOfTheirOwn) {
  GroupPlan plan = plan_of({0, 1, 1, 3});
  plan.experts_of_layer = {-1, -1, 2, -1};
  EXPECT_EQ(lines(StateProgram(plan, uses_of(kThereAndBack), 0)),
            (Lines{"await0 F0.0", "await1 F1.0", "await2 F2.0", "await3 F3.0", "B3.0 reduce3<>",
                   "B2.0 reduce2<>", "B1.0 reduce1<>", "B0.0 reduce0<>"}));
  EXPECT_EQ(lines(StateProgram(plan, uses_of(kThereAndBack), 3)),
            (Lines{"gather0 open0 gather1 F0.0 close0", "open1 gather2 F1.0",
                   "open2 gather3 F2.0 close1 close2", "open3 gather1 gather2 F3.0",
                   "begin3 B3.0 close3 reduce3<>",
                   "open1 open2 begin1 begin2 B2.0 close2 finish3 reduce2<>",
                   "B1.0 close1 finish2 reduce1<>", "begin0 B0.0 finish1 reduce0<>", "finish0"}));
}

// Experts without replicas are not sharded, and what follows them is still gathered ahead.
TEST(StateProgram, GroupsMayBeShardedDifferently) {
  GroupPlan plan = plan_of({0, 1, 1, 3});
  plan.experts_of_layer = {-1, -1, 2, -1};
  EXPECT_EQ(lines(StateProgram(plan, uses_of("F0.0 F1.0 F2.0 F3.0"), {3, 3, 0, 3})),
            (Lines{"gather0 open0 gather1 F0.0 close0", "open1 gather3 F1.0", "await2 F2.0 close1",
                   "open3 F3.0 close3"}));
}

TEST(StateProgram, DividedWeightsAreGatheredAWindowAhead) {
  EXPECT_EQ(lines(kUntied, kThereAndBack, 3),
            (Lines{"gather0 open0 gather1 F0.0 close0", "open1 gather2 F1.0", "F2.0 close1",
                   "open2 gather1 F3.0", "begin2 B3.0 close2 reduce2<>", "open1 begin1 B2.0",
                   "B1.0 close1 finish2 reduce1<>", "begin0 B0.0 finish1 reduce0<>", "finish0"}));
}

// The next micro-batch starts with the embedding, which is prefetched during the block's window.
TEST(StateProgram, TheNextMicroBatchIsGatheredForToo) {
  const Lines all = lines({0, 1}, "F0.0 F1.0 B1.0 B0.0 F0.1 F1.1 B1.1 B0.1", 3);
  EXPECT_EQ(all,
            (Lines{"gather0 open0 gather1 F0.0 close0", "open1 gather0 F1.0",
                   "begin1 B1.0 close1 reduce1<", "begin0 B0.0 finish1 reduce0<",
                   "open0 gather1 F0.1 close0", "open1 F1.1", "begin1 B1.1 close1 finish0 reduce1>",
                   "begin0 B0.1 finish1 reduce0>", "finish0"}));
}

TEST(StateProgram, OneBucketTakesAllMicroBatchesThatAreUnderWay) {
  const std::vector<int> one = {0};
  EXPECT_EQ(
      lines(one, "F0.0 I0.0 F0.1 I0.1 W0.0 W0.1", 2),
      (Lines{"await0 F0.0", "begin0 I0.0", "F0.1", "I0.1", "W0.0", "W0.1 reduce0<>", "finish0"}));
  EXPECT_EQ(lines(one, "F0.0 I0.0 W0.0 F0.1 I0.1 W0.1", 2),
            (Lines{"await0 F0.0", "begin0 I0.0", "W0.0 reduce0<", "F0.1", "finish0 begin0 I0.1",
                   "W0.1 reduce0>", "finish0"}));
  EXPECT_EQ(lines(one, "F0.0 I0.0 F0.1 I0.1 W0.0 W0.1", 0),
            (Lines{"await0 F0.0", "I0.0", "F0.1", "I0.1", "W0.0", "W0.1 reduce0<>"}));
}

TEST(StateProgram, TheWeightHalfReadsNoWeights) {
  EXPECT_EQ(lines({0, 1}, "F0.0 F1.0 I1.0 I0.0 W1.0 W0.0", 3),
            (Lines{"gather0 open0 gather1 F0.0 close0", "open1 F1.0", "begin1 I1.0 close1",
                   "begin0 I0.0", "W1.0 reduce1<>", "W0.0 finish1 reduce0<>", "finish0"}));
}

// The first contribution to a tied embedding is made in place; a later one is completed before it
// is added, as it would be on separate ranks.
TEST(StateProgram, ATiedWeightGetsOneFinishedContributionAtATime) {
  EXPECT_EQ(
      lines(kTied, std::string(kThereAndBack) + " F0.1 F1.1 F2.1 F3.1 B3.1 B2.1 B1.1 B0.1", 0),
      (Lines{"await0 F0.0", "await1 F1.0", "F2.0", "F3.0", "B3.0", "B2.0", "B1.0", "B0.0 reduce0<",
             "F0.1", "F1.1", "F2.1", "F3.1", "begin0 B3.1", "B2.1", "B1.1 reduce1>",
             "B0.1 reduce0>"}));
}

TEST(StateProgram, ATiedWeightOfMicroBatchesUnderWayIsReducedOnce) {
  EXPECT_EQ(lines({0, 1, 0}, "F0.0 F1.0 F2.0 F0.1 F1.1 F2.1 B2.0 B1.0 B2.1 B1.1 B0.0 B0.1", 2),
            (Lines{"await0 F0.0", "await1 F1.0", "F2.0", "F0.1", "F1.1", "F2.1", "begin0 B2.0",
                   "begin1 B1.0 reduce1<", "B2.1", "finish1 begin1 B1.1 reduce1>", "B0.0",
                   "B0.1 finish1 reduce0<>", "finish0"}));
}

// Both layers share a window, which is opened again after another group's.
TEST(StateProgram, JoinedActionsTakeTurnsInTheirWindows) {
  EXPECT_EQ(lines({0, 1, 2}, "F1.0 F2.0 F1.1 B2.0 F2.1 B1.0", 3),
            (Lines{"gather1 open1 gather2 F1.0 close1", "open2 gather1 F2.0 close2",
                   "open1 gather2 F1.1 close1", "open2 gather1 begin2 B2.0 reduce2<>",
                   "F2.1 close2", "open1 begin1 B1.0 close1 finish2 reduce1<>", "finish1"}));
}

// Layers 1 and 2 are one group. A pass in phases keeps its window while others open and close
// theirs, and what is gathered ahead is the next window that is not open.
TEST(StateProgram, APassInPhasesKeepsItsWindow) {
  const auto with_phases = [](const char* uses, const std::vector<int>& phases) {
    std::vector<LayerUse> all = uses_of(uses);
    for (size_t i = 0; i < all.size(); ++i) all[i].phase = static_cast<Phase>(phases[i]);
    return lines(StateProgram(plan_of({0, 1, 1, 2, 3}), all, 3));
  };
  EXPECT_EQ(with_phases("F2.1 F0.0 F2.1 F4.0 F2.1 F3.1", {1, 0, 2, 0, 3, 0}),
            (Lines{"gather1 open1 gather0 F2.1", "open0 gather3 F0.0 close0", "F2.1",
                   "open3 gather2 F4.0 close3", "F2.1 close1", "open2 F3.1 close2"}));
  // Of one group, forward and back.
  EXPECT_EQ(with_phases("F2.1 B2.0 F2.1 B2.0 F2.1 F3.1 B2.0 B1.0", {1, 1, 2, 2, 3, 0, 3, 0}),
            (Lines{"gather1 open1 gather2 F2.1", "begin1 B2.0", "F2.1", "B2.0", "F2.1",
                   "open2 F3.1 close2", "B2.0", "B1.0 close1 reduce1<>", "finish1"}));
}

TEST(StateProgram, ABlockThatIsRecomputedIsGatheredOnce) {
  EXPECT_EQ(lines(kUntied, "F0.0 F1.0 F2.0 F3.0 B3.0 R1.0 R2.0 B2.0 B1.0 B0.0", 3),
            (Lines{"gather0 open0 gather1 F0.0 close0", "open1 gather2 F1.0", "F2.0 close1",
                   "open2 gather1 F3.0", "begin2 B3.0 close2 reduce2<>", "open1 R1.0", "R2.0",
                   "begin1 B2.0", "B1.0 close1 finish2 reduce1<>", "begin0 B0.0 finish1 reduce0<>",
                   "finish0"}));
}

TEST(StateProgram, ForwardAloneHasNoGradients) {
  EXPECT_EQ(lines(kUntied, "F0.0 F1.0 F2.0 F3.0", 3),
            (Lines{"gather0 open0 gather1 F0.0 close0", "open1 gather2 F1.0", "F2.0 close1",
                   "open2 F3.0 close2"}));
}

// Plays a program and checks the rules of state_program.h.
class Referee {
 public:
  Referee(const StateProgram& program, const GroupPlan& plan, int zero)
      : program_(program), plan_(plan), zero_(zero) {}

  void play() {
    for (size_t i = 0; i < program_.size(); ++i) {
      const LayerUse& use = program_.use(i);
      const bool is_cut = use.phase != Phase::Whole;
      if (is_cut && use.begins()) between_.push_back(use);
      most_open_ = between_.empty() ? 1 : 2;
      for (const StateEvent& event : program_.before(i)) take(event);
      check(use);
      for (const LayerUse& other : between_) check(other);
      if (is_cut && use.ends())
        std::erase_if(between_, [&](const LayerUse& other) {
          return other.pass == use.pass && other.layer == use.layer && other.micro == use.micro;
        });
      for (const StateEvent& event : program_.after(i)) take(event);
    }
    EXPECT_TRUE(between_.empty());
    for (const StateEvent& event : program_.at_end()) take(event);
    EXPECT_TRUE(gathered_.empty() && buckets_.empty() && reducing_.empty());
    for (const int group : given_) EXPECT_TRUE(last_.contains(group)) << group;
  }

 private:
  void take(const StateEvent& event) {
    const int group = event.group;
    switch (event.step) {
      case StateStep::AwaitWeights:
        EXPECT_TRUE(zero_ < 3 && awaited_.insert(group).second);
        return;
      case StateStep::GatherWeights:
        EXPECT_TRUE(zero_ == 3 && gathered_.insert(group).second);
        EXPECT_LE(gathered_.size(), most_open_ + 1);  // the windows and the prefetch
        return;
      case StateStep::BindWeights:
        EXPECT_TRUE(gathered_.contains(group) && open_.insert(group).second);
        EXPECT_LE(open_.size(), most_open_);
        return;
      case StateStep::FreeWeights:
        EXPECT_EQ(open_.erase(group), 1u);
        gathered_.erase(group);
        return;
      case StateStep::OpenBucket:
        EXPECT_TRUE(buckets_.insert(group).second);
        EXPECT_FALSE(reducing_.contains(group));  // one bucket per group
        return;
      case StateStep::ReduceBucket:
        EXPECT_EQ(buckets_.erase(group), zero_ >= 2 ? 1u : buckets_.count(group));
        if (zero_ >= 2) {
          EXPECT_TRUE(reducing_.insert(group).second);
          EXPECT_LE(reducing_.size(), 1u);
          EXPECT_EQ(event.is_first, first_.insert(group).second);
        }
        EXPECT_FALSE(last_.contains(group));
        if (event.is_last) last_.insert(group);
        return;
      case StateStep::FreeBucket:
        EXPECT_EQ(reducing_.erase(group), 1u);
        return;
    }
  }

  void check(const LayerUse& use) {
    const auto layer = static_cast<size_t>(use.layer);
    const int group = plan_.group_of_layer[layer];
    const bool reads =
        !gives_gradients(use.pass) || (use.pass != Pass::Weight && plan_.reads_in_backward[layer]);
    EXPECT_TRUE(!reads || (zero_ == 3 ? open_.contains(group) : awaited_.contains(group)));
    if (!gives_gradients(use.pass)) return;
    given_.insert(group);
    EXPECT_FALSE(last_.contains(group));  // nothing is added after the last reduction
    EXPECT_TRUE(zero_ < 2 || buckets_.contains(group));
  }

  const StateProgram& program_;
  const GroupPlan& plan_;
  int zero_;
  std::vector<LayerUse> between_;  // passes between two phases
  size_t most_open_ = 1;           // windows at once
  std::set<int> open_, awaited_, gathered_, buckets_, reducing_, given_, first_, last_;
};

TEST(StateProgram, KeepsItsRulesUnderEverySchedule) {
  for (const std::string& schedule : schedule_names())
    for (const bool tied : {false, true})
      for (const int ranks : {2, 4}) {
        ModelConfig model = *model_preset("tiny");
        model.layers = 8;
        model.tied = tied;
        const Blueprint blueprint = make_blueprint(model);
        ParallelConfig parallel;
        parallel.pp = ranks;
        parallel.schedule = schedule;
        if (schedule.starts_with("interleaved") || schedule == "looped-bfs") parallel.chunks = 2;
        Pipeline pipeline = make_pipeline(blueprint, parallel, 10);
        if (ranks == 4) pipeline.keeps = keeps_of(blueprint, Recompute::Full);
        for (int rank = 0; rank < ranks; ++rank)
          for (int zero = 0; zero < 4; ++zero) {
            SCOPED_TRACE(schedule + (tied ? ", tied, rank " : ", rank ") + std::to_string(rank) +
                         " of " + std::to_string(ranks) + ", zero " + std::to_string(zero));
            RankPart part = part_of(blueprint, pipeline, rank);
            const GroupPlan plan = make_groups(blueprint, part);
            const auto play = [&] {
              const StateProgram program(plan, make_program(pipeline, part, rank).uses, zero);
              Referee(program, plan, zero).play();
            };
            play();
            for (size_t layer = 0; layer < part.layers.size(); ++layer)  // as experts do
              part.exchanges[layer] = blueprint.layers[part.layers[layer]].kind == LayerKind::Mlp;
            play();
          }
      }
}

}  // namespace
}  // namespace sextant
