#include "tensor/programs.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "tensor/arena.h"

namespace sextant {
namespace {

Tensor take(Arena& arena, int64_t bytes) {
  return arena.allocate(Category::Activations, DType::F8E4M3, {bytes});
}

// Something resident, and a step that frees its first tensor before it takes its third.
void run_step(Arena& arena, int64_t third = 64) {
  arena.begin(Program::Step);
  Tensor a = take(arena, 100), b = take(arena, 200);
  a = Tensor();
  const Tensor c = take(arena, third);
  b = Tensor();
}

std::shared_ptr<const ArenaPlan> plan_of_step(int64_t resident) {
  Arena phantom(Device{DeviceKind::Phantom});
  const Tensor kept = take(phantom, resident);
  run_step(phantom);
  phantom.end();
  return std::make_shared<ArenaPlan>(*plan_arena(phantom.record()));
}

TEST(Programs, ARecordLeadsToAPlanThatTheRunFollows) {
  const auto plan = plan_of_step(1000);
  EXPECT_EQ(plan->resident, 1024);
  EXPECT_EQ(plan->reserved, 1024 + 128 + 256);
  Arena arena(Device{}, plan);
  EXPECT_EQ(arena.region().bytes(), plan->reserved);
  const Tensor kept = take(arena, 1000);
  EXPECT_EQ(arena.offset_of(kept.raw()), 0);
  for (int step = 0; step < 2; ++step) {
    run_step(arena);
    arena.end();
  }
  EXPECT_EQ(arena.peak(), 1000 + 300);
  EXPECT_EQ(arena.reserved(), plan->reserved);
}

TEST(Programs, WhatThePlanDoesNotKnowIsRefused) {
  Arena arena(Device{}, plan_of_step(1000));
  const Tensor kept = take(arena, 1000);
  EXPECT_ERROR((void)take(arena, 100), Internal, "planned are 1024");
  EXPECT_ERROR(run_step(arena, 65), Internal, "is not the one that was planned");
}

TEST(Programs, AnotherOrderOfFreesIsRefused) {
  Arena arena(Device{}, plan_of_step(64));
  arena.begin(Program::Step);
  Tensor a = take(arena, 100), b = take(arena, 200);
  b = Tensor();  // the plan frees the other one first
  EXPECT_ERROR((void)take(arena, 64), Internal, "is not the one that was planned");
}

TEST(Programs, AProgramThatEndsEarlyIsRefused) {
  Arena arena(Device{}, plan_of_step(64));
  arena.begin(Program::Step);
  Tensor a = take(arena, 100), b = take(arena, 200);
  a = Tensor();
  b = Tensor();  // the plan takes another one before that
  EXPECT_ERROR(arena.end(), Internal, "freed out of turn");
}

TEST(Programs, ATensorThatOutlivesItsProgramIsRefused) {
  Arena phantom(Device{DeviceKind::Phantom});
  phantom.begin(Program::Step);
  const Tensor kept = take(phantom, 100);
  EXPECT_ERROR(phantom.end(), Internal, "1 tensors outlive their program");
}

TEST(Programs, ARedoEndsAStepInTheMiddleAndTheStepBeginsAgain) {
  const auto run = [](Arena& arena) {
    for (int step = 0; step < 2; ++step) {
      arena.begin(Program::Step);
      Tensor a = take(arena, 100), b = take(arena, 200);
      if (step == 1) {
        arena.begin(Program::Redo);
        a = Tensor();
        { const Tensor message = take(arena, 60); }
        b = Tensor();
        arena.end();
        arena.begin(Program::Step);
        a = take(arena, 100);
        b = take(arena, 200);
      }
      a = Tensor();
      b = Tensor();
      arena.end();
    }
  };
  Arena phantom(Device{DeviceKind::Phantom});
  run(phantom);
  const auto plan = std::make_shared<ArenaPlan>(*plan_arena(phantom.record()));
  EXPECT_EQ(plan->reserved, 128 + 256);  // the message goes where a was
  Arena arena(Device{}, plan);
  run(arena);
}

}  // namespace
}  // namespace sextant
