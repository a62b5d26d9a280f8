#include "trace/cycle.h"

#include <gtest/gtest.h>

#include <vector>

#include "trace/arena_plan.h"

namespace sextant {
namespace {

// Records a program: tensors are taken and freed one at a time.
struct Recorded {
  std::vector<Lifetime> lifetimes;
  int32_t event = 0;

  size_t take(int64_t bytes) {
    lifetimes.push_back({bytes, event++, 0});
    return lifetimes.size() - 1;
  }
  void free(size_t tensor) { lifetimes[tensor].end = event++; }
};

// A pipeline rank with three micro-batches in flight: each cycle has the forward of one and the
// backward of another. A message outlives its cycle by two. One tensor is there all the time.
Recorded program(int cycles, Cycle* last = nullptr) {
  constexpr int kInFlight = 3;
  Recorded out;
  std::vector<std::vector<size_t>> kept;
  std::vector<size_t> messages;
  const size_t always = out.take(320);
  const auto forward = [&] {
    const size_t temporary = out.take(512);
    kept.push_back({out.take(256), out.take(1024), out.take(64)});
    out.free(temporary);
    messages.push_back(out.take(128));
    if (messages.size() > 2) out.free(messages[messages.size() - 3]);
  };
  const auto backward = [&](size_t micro) {
    const size_t gradient = out.take(1024), other = out.take(192);
    for (size_t i = 3; i-- > 0;) out.free(kept[micro][i]);
    out.free(other);
    out.free(gradient);
  };
  for (int i = 0; i < kInFlight - 1; ++i) forward();
  for (int i = 0; i < cycles; ++i) {
    const auto tensors = static_cast<int32_t>(out.lifetimes.size());
    const int32_t event = out.event;
    forward();
    backward(static_cast<size_t>(i));
    if (last != nullptr) {
      last->end = static_cast<int32_t>(out.lifetimes.size());
      last->end_event = out.event;
      last->tensors = last->end - tensors;
      last->events = last->end_event - event;
    }
  }
  for (int i = cycles; i < cycles + kInFlight - 1; ++i) backward(static_cast<size_t>(i));
  for (size_t i = messages.size() - 2; i < messages.size(); ++i) out.free(messages[i]);
  out.free(always);
  return out;
}

ArenaRecord record_of(int cycles, int left_out) {
  ArenaRecord record;
  const auto step = static_cast<size_t>(Program::Step);
  record.programs[step] = program(cycles, &record.cycles[step]).lifetimes;
  record.cycles[step].left_out = left_out;
  return record;
}

TEST(Cycle, TheWholeProgramAndItsPlanFollowFromTheRecord) {
  for (const int cycles : {6, 7, 9})
    for (const int left_out : {1, 2, 3, 4, 5, 17, 100}) {
      const auto plan = plan_arena(record_of(cycles, left_out));
      ASSERT_TRUE(plan);
      const ProgramPlan& step = (*plan)[Program::Step];
      const std::vector<Lifetime> whole = program(cycles + left_out).lifetimes;
      ASSERT_EQ(step.size(), static_cast<int64_t>(whole.size()));
      AddressPlan offsets{{}, plan->reserved};
      for (size_t i = 0; i < whole.size(); ++i) {
        const Lifetime lifetime = step.lifetime(static_cast<int64_t>(i));
        EXPECT_EQ(lifetime.bytes, whole[i].bytes) << i;
        EXPECT_EQ(lifetime.begin, whole[i].begin) << i;
        EXPECT_EQ(lifetime.end, whole[i].end) << i;
        offsets.offsets.push_back(step.offset(static_cast<int64_t>(i)));
      }
      EXPECT_TRUE(is_sound(whole, offsets)) << cycles << " + " << left_out;
      EXPECT_EQ(plan->peak, peak_bytes(whole));
      EXPECT_LE(plan->reserved, plan->peak * 21 / 20);
    }
}

TEST(Cycle, ATensorOfACycleMayLiveForSeveral) {
  Cycle cycle = record_of(8, 1).cycles[0];
  ASSERT_TRUE(measure(program(8).lifetimes, cycle));
  EXPECT_EQ(cycle.tensors, 7);
  EXPECT_EQ(cycle.depth, 3);
  EXPECT_GE(cycle.reach, 5);
}

TEST(Cycle, CyclesThatDifferDoNotRepeat) {
  const ArenaRecord record = record_of(8, 5);
  const auto with = [&](int32_t back, size_t place, auto&& change) {
    ArenaRecord other = record;
    change(other.programs[0][record.cycles[0].begin_of(back) + place]);
    return plan_arena(other).has_value();
  };
  EXPECT_TRUE(with(1, 0, [](Lifetime&) {}));
  EXPECT_FALSE(with(1, 1, [](Lifetime& lifetime) { lifetime.bytes += 64; }));
  EXPECT_FALSE(with(2, 5, [](Lifetime& lifetime) { ++lifetime.end; }));
  EXPECT_FALSE(with(1, 4, [](Lifetime& lifetime) { ++lifetime.begin; }));
  ArenaRecord from_before = record;  // freed in the last cycle
  from_before.programs[0][0].end = record.cycles[0].end_event - 1;
  EXPECT_FALSE(plan_arena(from_before));
  EXPECT_FALSE(plan_arena(record_of(2, 5)));  // too few to tell
}

}  // namespace
}  // namespace sextant
