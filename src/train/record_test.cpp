#include "train/record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace sextant {
namespace {

StepRecord sample() {
  StepRecord record;
  record.step = 7;
  record.loss = 3.25;
  record.grad_norm = 1.5;
  record.lr = 3e-4;
  record.tokens = 2048;
  record.step_s = 0.5;
  record.tokens_per_s = 4096;
  record.tflops = 0.125;
  record.mfu = 0.71;
  record.mem_peak = 3 << 20;
  record.comm_s = 0.25;
  record.comm_exposed_s = 0.125;
  record.sent.at(record.sent.axis("world"), Operation::Barrier).calls = 1;
  record.sent.at(record.sent.axis("dp"), Operation::AllReduce) = {2, 90, 360};
  record.sent.at(record.sent.axis("pp"), Operation::Send) = {1, 10, 40};
  const auto exposed = [&](const char* axis, Operation operation) -> double& {
    return record.exposed[record.sent.axis(axis)][static_cast<size_t>(operation)];
  };
  exposed("world", Operation::Barrier) = 1;
  exposed("dp", Operation::AllReduce) = 0.0625;
  exposed("pp", Operation::Send) = 0.25;
  exposed("pp", Operation::Receive) = 0.5;
  return record;
}

TEST(StepRecord, AsJsonHasEveryFieldOfTheContract) {
  EXPECT_EQ(to_json(sample()),
            "{\"step\":7,\"loss\":3.25,\"grad_norm\":1.5,\"lr\":0.0003,\"tokens\":2048,"
            "\"tokens_per_s\":4096.0,\"tflops\":0.125,\"mfu\":0.71,\"step_s\":0.5,"
            "\"mem_peak\":3145728,\"comm_s\":0.25,\"comm_exposed_s\":0.125,"
            "\"comm_elements\":100,\"comm_bytes\":400,\"comm_by_axis\":{"
            "\"dp\":{\"all_reduce\":{\"calls\":2,\"elements\":90,\"bytes\":360,"
            "\"exposed_s\":0.0625},\"exposed_s\":0.0625},"
            "\"pp\":{\"send\":{\"calls\":1,\"elements\":10,\"bytes\":40,"
            "\"exposed_s\":0.25},\"exposed_s\":0.75}}}");
  StepRecord evaluated = sample();
  evaluated.eval_loss = 3.5;
  EXPECT_EQ(nlohmann::json::parse(to_json(evaluated))["eval_loss"], 3.5);
}

TEST(StepRecord, AsJsonKeepsEveryBit) {
  StepRecord record = sample();
  record.loss = 1.0 / 3;
  EXPECT_EQ(nlohmann::json::parse(to_json(record))["loss"].get<double>(), record.loss);
}

TEST(StepRecord, AsALineShowsWhatTheContractAsksFor) {
  EXPECT_EQ(to_line(sample(), 200),
            "step   7/200  loss 3.2500  norm 1.500  lr 3.00e-04  4.1k tok/s  0.125 TFLOP/s  "
            "mfu 71.0%  mem 3.0 MiB  500 ms  comm 125.0 ms exposed");
  StepRecord quick = sample();
  quick.step_s = 0.0123;
  quick.comm_exposed_s = 1e-6;  // of a single rank: not shown
  quick.eval_loss = 3.5;
  EXPECT_TRUE(to_line(quick, 9).ends_with("12.3 ms  eval 3.5000")) << to_line(quick, 9);
}

TEST(StepRecord, AsABarFillsUpAndSaysHowLong) {
  StepRecord record = sample();
  record.step = 50;
  EXPECT_EQ(to_progress(record, 200),
            "[######..................] 50/200  loss 3.2500  4.1k tok/s  1:15 left");
  record.step = 200;
  EXPECT_EQ(to_progress(record, 200).substr(0, 26), "[" + std::string(24, '#') + "]");
}

}  // namespace
}  // namespace sextant
