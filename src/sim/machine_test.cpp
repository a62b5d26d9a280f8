#include "sim/machine.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "trace/recorder.h"

namespace sextant {
namespace {

constexpr const char* kFile = R"(schema = 1
name = "box"
[gpu]
bf16 = 0.1
[cpu]
cores = 4
[matmul-f32-1]
us = 2
gflops = 50
[copy-f32-1]
read_gb_s = 8
write_gb_s = 4
[all_reduce-f32-2-own]
us = 10
send_gb_s = 2
[all_reduce-f32-8-shared]
us = 100
send_gb_s = 1
)";

// A trace of one operation.
struct OneOp {
  OneOp(const char* name, TraceLane lane, DType dtype, double flops, int64_t read, int64_t written,
        int64_t sent) {
    recorder.begin(name,
                   lane.kind == TraceLane::Kind::Compute ? Trace::kCompute : recorder.lane(lane));
    TraceOperand operand;
    operand.dtype = dtype;
    recorder.operand(operand);
    TraceOp& op = recorder.end();
    op.flops = flops;
    op.read = read;
    op.written = written;
    op.sent = sent;
  }
  double seconds(const MachineCosts& costs) const {
    return costs.seconds_of(recorder.trace(), recorder.trace().ops[0]);
  }
  TraceRecorder recorder;
};

OneOp compute(const char* name, DType dtype, double flops, int64_t read, int64_t written) {
  return {name, {"compute"}, dtype, flops, read, written, 0};
}
OneOp all_reduce(int ranks, int64_t sent) {
  TraceLane lane{"dp", TraceLane::Kind::Collective, "dp"};
  for (int rank = 0; rank < ranks; ++rank) lane.ranks.push_back(rank);
  return {"all_reduce", lane, DType::F32, 0, 0, 0, sent};
}

TEST(Machine, CostsAddUp) {
  const Machine machine = parse_machine(kFile, "box.toml");
  EXPECT_EQ(machine.name, "box");
  EXPECT_EQ(machine.cores, 4);
  const MachineCosts costs(machine, 2, 1);
  EXPECT_DOUBLE_EQ(compute("matmul", DType::F32, 1e9, 5, 5).seconds(costs), 2e-6 + 0.02);
  EXPECT_DOUBLE_EQ(compute("copy", DType::F32, 0, 8000, 4000).seconds(costs), 2e-6);
  EXPECT_DOUBLE_EQ(all_reduce(2, 500).seconds(costs), 10e-6 + 1e-6);
  EXPECT_EQ(costs.assumed(), std::vector<std::string>{});
}

// 2 x 3 tokens, 4 heads of 16; statistics, and the matrices that are written and read.
TraceOp attention(Trace& trace, const char* name) {
  const auto add = [&](std::array<int64_t, TraceOperand::kMaxDims> shape, uint8_t dims,
                       bool is_written) {
    TraceOperand operand;
    operand.shape = shape;
    operand.dims = dims;
    operand.dtype = DType::BF16;
    operand.is_written = is_written;
    trace.operand_list.push_back(operand);
  };
  TraceOp op;
  op.name = name;
  const bool is_forward = std::string_view(name) == "attention";
  add(is_forward ? std::array<int64_t, 5>{6, 64} : std::array<int64_t, 5>{6, 192}, 2, true);
  if (is_forward) add({2, 4, 3}, 3, true);
  add(is_forward ? std::array<int64_t, 5>{6, 192} : std::array<int64_t, 5>{6, 64}, 2, false);
  if (!is_forward) add({2, 4, 3}, 3, false);
  op.operands_end = static_cast<uint32_t>(trace.operand_list.size());
  op.flops = 1e9;
  return op;
}

TEST(Machine, AttentionOnAGpuHasACostForEachHeadDimension) {
  Trace forward, backward;
  const TraceOp op = attention(forward, "attention");
  EXPECT_EQ(gpu_cost_name(forward, op), "attention_d16");
  EXPECT_EQ(gpu_cost_name(backward, attention(backward, "attention_backward")),
            "attention_backward_d16");
  const OneOp product = compute("matmul", DType::BF16, 1, 1, 1);
  EXPECT_EQ(gpu_cost_name(product.recorder.trace(), product.recorder.trace().ops[0]), "matmul");
  Machine machine{"gpu", 1, {}};
  machine.costs["attention-bf16-1"] = {.call = 0, .flop = 1e-9};
  EXPECT_DOUBLE_EQ(MachineCosts(machine, 1, 1).seconds_of(forward, op), 1);
  machine.costs["attention_d16-bf16-1"] = {.call = 0, .flop = 2e-9};
  EXPECT_DOUBLE_EQ(MachineCosts(machine, 1, 1).seconds_of(forward, op), 2);
}

TEST(Machine, RanksThatShareCoresHaveCollectivesOfTheirOwn) {
  const Machine machine = parse_machine(kFile, "box.toml");
  EXPECT_DOUBLE_EQ(all_reduce(8, 250).seconds(MachineCosts(machine, 8, 1)), 100e-6 + 1e-6);
}

TEST(Machine, WhatIsNotMeasuredCostsAsMuchAsTheNearestAndIsNamed) {
  const Machine machine = parse_machine(kFile, "box.toml");
  const MachineCosts costs(machine, 2, 1);
  EXPECT_DOUBLE_EQ(compute("matmul", DType::BF16, 1e9, 0, 0).seconds(costs), 2e-6 + 0.02);
  EXPECT_DOUBLE_EQ(compute("unheard_of", DType::F32, 1e9, 8000, 0).seconds(costs), 1e-6);
  EXPECT_DOUBLE_EQ(all_reduce(4, 500).seconds(costs), 10e-6 + 1e-6);
  EXPECT_EQ(costs.assumed(),
            (std::vector<std::string>{"all_reduce-f32-4-own: not measured, as all_reduce-f32-2-own",
                                      "matmul-bf16-1: not measured, as matmul-f32-1",
                                      "unheard_of-f32-1: not measured, as copy-f32-1"}));
}

TEST(Machine, ItsTextIsReadBack) {
  const Machine machine = parse_machine(kFile, "box.toml");
  const Machine again = parse_machine(machine_text(machine), "again.toml");
  EXPECT_EQ(again.cores, machine.cores);
  ASSERT_EQ(again.costs.size(), machine.costs.size());
  for (const auto& [key, cost] : machine.costs)
    EXPECT_NEAR(again.costs.at(key).of(1e9, 1e6, 1e6, 1e6), cost.of(1e9, 1e6, 1e6, 1e6),
                1e-4 * cost.of(1e9, 1e6, 1e6, 1e6))
        << key;
}

TEST(Machine, AFileThatIsWrongIsRefusedInOneLine) {
  const auto refused = [](const std::string& text, const std::string& why) {
    EXPECT_ERROR(parse_machine(text, "m.toml"), Config, why);
  };
  refused("name = \"a\"", "m.toml: has no measured costs");
  refused("[cpu]\ncores = 0", "m.toml:2: cpu.cores is 0, it takes a number from 1 to 4096");
  refused("[cpu]\ncores = 2\n[matmul-f32-1]\ngflop = 3", "m.toml:4: unknown key");
  refused("[cpu]\ncores = 2\n[matmul-f32-1]\nus = -1", "matmul-f32-1.us is -1");
  refused("[cpu]\ncores = 2\n[matmul-f32-1]\nus = \"x\"", "matmul-f32-1.us is");
}

}  // namespace
}  // namespace sextant
