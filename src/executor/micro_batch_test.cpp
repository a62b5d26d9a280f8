#include "executor/micro_batch.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

HostBatch host_batch() {
  HostBatch host;
  host.batch = 2;
  host.seq = 2;
  host.tokens = {1, 2, 3, 4};
  host.targets = {2, -1, 4, 0};
  host.positions = {0, 1, 0, 1};
  host.starts = {0, 0, 0, 1};
  return host;
}

TEST(MicroBatch, CarriesAHostBatchOverAgainAndAgainInTheSameMemory) {
  Workbench bench;
  MicroBatch batch(bench.stream(), 2, 2);
  const int64_t before = bench.arena().peak();
  HostBatch host = host_batch();
  for (int32_t add = 0; add < 3; ++add) {
    host.tokens[0] = 1 + add;
    const Micro& micro = batch.load(bench.stream(), host, {}, 0.25);
    EXPECT_EQ(micro.batch, 2);
    EXPECT_EQ(micro.seq, 2);
    EXPECT_EQ(micro.z_loss, 0.25);
    EXPECT_EQ(bench.read<int32_t>(micro.tokens), host.tokens);
    EXPECT_EQ(bench.read<int32_t>(micro.targets), host.targets);
    EXPECT_EQ(bench.read<int32_t>(micro.positions), host.positions);
    EXPECT_EQ(bench.read<int32_t>(micro.starts), host.starts);
  }
  EXPECT_EQ(bench.arena().peak(), before);
}

TEST(MicroBatch, HasMemoryForIndicesOnlyWhileThereAreSome) {
  Workbench bench;
  MicroBatch batch(bench.stream(), 2, 2);
  HostBatch host = host_batch();
  const int64_t before = bench.arena().current(Category::Activations);
  for (int64_t step = 0; step < 3; ++step) {
    number_tokens(host, step);
    const Micro& micro = batch.load(bench.stream(), host, {{}, {}, step});
    EXPECT_EQ(bench.read<int32_t>(micro.indices), host.indices);
    EXPECT_EQ(micro.scalars.step, step);
    EXPECT_EQ(bench.arena().current(Category::Activations), before + 4 * 4);
  }
  EXPECT_FALSE(batch.load(bench.stream(), host_batch()).indices);
  EXPECT_EQ(bench.arena().current(Category::Activations), before);
}

TEST(MicroBatch, RefusesABatchOfAnotherShape) {
  Workbench bench;
  MicroBatch batch(bench.stream(), 1, 4);
  EXPECT_ERROR(batch.load(bench.stream(), host_batch()), Internal, "2 x 2 for tensors of 1 x 4");
}

TEST(ValidTokens, AreThoseWithATarget) {
  EXPECT_EQ(valid_tokens(host_batch()), 3);
  EXPECT_EQ(valid_tokens(HostBatch{}), 0);
}

}  // namespace
}  // namespace sextant
