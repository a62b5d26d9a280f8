#include "parallel/sharded_params.h"

#include <gtest/gtest.h>

#include "comm/run_ranks.h"
#include "mesh/serial_mesh.h"
#include "support/workbench.h"

namespace sextant {
namespace {

// A table that the first and the last layer use, and two layers between them. No number of ranks
// above 1 divides the groups of 15 and 7 elements; 8 ranks leave some without any.
std::vector<Param> make_params() {
  std::vector<Param> params;
  for (const auto& [name, shape] :
       {std::pair{"table", Shape{5, 3}}, std::pair{"one", Shape{7}},
        std::pair{"two.weight", Shape{2, 2}}, std::pair{"two.bias", Shape{3}}}) {
    Param param;
    param.name = name;
    param.shape = param.whole = shape;
    param.valid_rows = shape[0];
    param.fragment = whole_fragment(shape[0], shape.elements() / shape[0]);
    params.push_back(std::move(param));
  }
  return params;
}

GroupPlan make_layout() {
  return {{{"table", {0}, 15, 0, false}, {"one", {1}, 7, 1, false}, {"two", {2, 3}, 7, 2, false}},
          {0, 1, 2, 0},
          {},
          {false, true, true, true},
          {0, 1, 2, 3}};
}
constexpr int kLayers = 4;
constexpr int64_t kElements = 15 + 7 + 7;

struct Stage {
  ZeroStage stage;
  MeshShape shape;
};

MeshShape mesh_of(int dp, int shard) {
  MeshShape shape;
  shape.degrees[static_cast<size_t>(Axis::Dp)] = dp;
  shape.degrees[static_cast<size_t>(Axis::Shard)] = shard;
  return shape;
}

std::vector<Stage> all_stages() {
  std::vector<Stage> stages = {{ZeroStage::None, mesh_of(3, 1)}};
  for (const ZeroStage stage : {ZeroStage::Optimizer, ZeroStage::Gradients, ZeroStage::Weights})
    for (const auto& [dp, shard] : {std::pair{1, 2}, std::pair{1, 8}, std::pair{2, 3}})
      stages.push_back({stage, mesh_of(dp, shard)});
  return stages;
}

// f(stream, mesh, params) on every rank.
template <class F>
void on_ranks(const Stage& stage, F&& f) {
  run_ranks(stage.shape.size(),
            [&](Communicator& world) {
              Workbench bench;
              Mesh mesh(world, stage.shape);
              ShardedParams params(bench.stream(), make_params(), make_layout(), mesh,
                                   {stage.stage});
              f(bench.stream(), mesh, params);
            },
            {30, nullptr});
}

void set_all(Stream& stream, const Tensor& tensor, float value) {
  Tensor to = tensor;
  copy_from_host<float>(stream, to,
                        std::vector<float>(static_cast<size_t>(tensor.elements()), value));
}

std::vector<float> floats_of(Stream& stream, const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  copy_to_host<float>(stream, values, tensor);
  return values;
}

// Of so many micro-batches, each forward and then back.
StateProgram make_step(const ShardedParams& params, int micros) {
  std::vector<LayerUse> uses;
  for (int micro = 0; micro < micros; ++micro) {
    for (int layer = 0; layer < kLayers; ++layer) uses.push_back({Pass::Forward, layer, micro});
    for (int layer = kLayers; layer-- > 0;) uses.push_back({Pass::Backward, layer, micro});
  }
  return params.make_program(uses);
}

// The parameters that a layer uses.
std::vector<Param*> params_of(ShardedParams& params, int layer) {
  const GroupPlan layout = make_layout();
  const auto group = static_cast<size_t>(layout.group_of_layer[static_cast<size_t>(layer)]);
  std::vector<Param*> out;
  for (const int index : layout.groups[group].params)
    out.push_back(&params.params()[static_cast<size_t>(index)]);
  return out;
}

// Each layer gives its parameters the gradient `value`.
void run_micro(Stream& stream, ShardedParams& params, int micro, float value) {
  for (int layer = 0; layer < kLayers; ++layer) {
    params.before(stream, {Pass::Forward, layer, micro});
    for (const Param* param : params_of(params, layer))
      EXPECT_TRUE(param->value) << "forward of " << layer;
    params.after(stream);
  }
  for (int layer = kLayers; layer-- > 0;) {
    params.before(stream, {Pass::Backward, layer, micro});
    for (Param* used : params_of(params, layer)) {
      Param& param = *used;
      std::vector<float> sum(static_cast<size_t>(param.shape.elements()), value);
      if (param.next_write() == Write::Add)
        for (size_t i = 0; const float old : floats_of(stream, param.grad)) sum[i++] += old;
      copy_from_host<float>(stream, param.grad, sum);
    }
    params.after(stream);
  }
}

TEST(ShardedParams, TheRanksOfAShardGroupOwnEveryElementOnce) {
  for (const Stage& stage : all_stages())
    on_ranks(stage, [&](Stream&, Mesh& mesh, ShardedParams& params) {
      std::vector<int64_t> owners(static_cast<size_t>(kElements));
      int64_t offset = 0;
      for (const OwnedSlice& slice : params.owned()) {
        for (int64_t i = slice.range.begin; i < slice.range.end; ++i)
          ++owners[static_cast<size_t>(offset + i)];
        EXPECT_EQ(slice.value.elements(), slice.range.size());
        offset += slice.shape.elements();
      }
      ASSERT_EQ(offset, kElements);
      mesh.along(Axis::Shard).control().all_reduce(std::span(owners), ReduceOp::Sum);
      EXPECT_EQ(owners, std::vector<int64_t>(owners.size(), 1));
    });
}

// Rank r gives r + 1 from each layer in each micro-batch; two layers use the table.
TEST(ShardedParams, OwnedGradientsAreTheSumsOfAllRanksLayersAndMicroBatches) {
  for (const Stage& stage : all_stages())
    for (const int micros : {1, 2, 3})
      on_ranks(stage, [&](Stream& stream, Mesh& mesh, ShardedParams& params) {
        const int ranks = mesh.world().size();
        const StateProgram program = make_step(params, micros);
        for (int step = 0; step < 2; ++step) {
          params.begin_step(program);
          for (int micro = 0; micro < micros; ++micro)
            run_micro(stream, params, micro, static_cast<float>(mesh.world().rank() + 1));
          params.finish_gradients(stream);
          const auto sum = static_cast<float>(micros * ranks * (ranks + 1) / 2);
          for (const OwnedSlice& slice : params.owned())
            for (const float value : floats_of(stream, slice.grad))
              ASSERT_EQ(value, slice.name == "table" ? 2 * sum : sum)
                  << slice.name << ", stage " << static_cast<int>(stage.stage) << ", " << micros;
        }
      });
}

TEST(ShardedParams, WhatOwnersWriteIsWhatAllRanksRead) {
  for (const Stage& stage : all_stages())
    on_ranks(stage, [&](Stream& stream, Mesh& mesh, ShardedParams& params) {
      const int shard = stage.stage == ZeroStage::None ? 0 : mesh.at(Axis::Shard);
      for (const OwnedSlice& slice : params.owned())
        set_all(stream, slice.value, static_cast<float>(shard + 1));
      params.publish_weights(stream);
      std::vector<LayerUse> uses;
      for (int layer = 0; layer < kLayers; ++layer) uses.push_back({Pass::Forward, layer, 0});
      const StateProgram program = params.make_program(uses);
      params.begin_evaluation(program);
      const int shards = stage.shape.degree(Axis::Shard);
      for (int layer = 0; layer < kLayers; ++layer) {
        params.before(stream, uses[static_cast<size_t>(layer)]);
        std::vector<float> read, wanted;
        for (const Param* param : params_of(params, layer))
          for (const float value : floats_of(stream, param->value)) read.push_back(value);
        for (int owner = 0; owner < shards; ++owner)
          wanted.insert(wanted.end(),
                        static_cast<size_t>(
                            even_part(static_cast<int64_t>(read.size()), shards, owner).size()),
                        static_cast<float>(owner + 1));
        EXPECT_EQ(read, wanted) << "layer " << layer;
        params.after(stream);
      }
    });
}

// Gathers of a micro-batch: table, one, two in forward; the table from its last forward use to its
// first backward use; two, one in backward. The next micro-batch begins with the table again.
TEST(ShardedParams, DividedWeightsAreGatheredOncePerWindowAndFreedBehindIt) {
  on_ranks({ZeroStage::Weights, mesh_of(1, 2)},
           [&](Stream& stream, Mesh& mesh, ShardedParams& params) {
             mesh.world().ledger().reset();
             const StateProgram program = make_step(params, 2);
             params.begin_step(program);
             run_micro(stream, params, 0, 1);
             run_micro(stream, params, 1, 1);
             params.finish_gradients(stream);
             const auto calls = [&](Operation operation) {
               return mesh.world().ledger().traffic.of(operation).calls;
             };
             EXPECT_EQ(calls(Operation::AllGather), 2 * 6);
             EXPECT_EQ(calls(Operation::ReduceScatter), 2 * 3);
             for (const Param& param : params.params()) {
               EXPECT_FALSE(param.value) << param.name;
               EXPECT_FALSE(param.grad) << param.name;
             }
           });
}

TEST(ShardedParams, ARankAloneCallsNobody) {
  Workbench bench;
  SerialMesh alone;
  ShardedParams params(bench.stream(), make_params(), make_layout(), alone.mesh(), {});
  const StateProgram program = make_step(params, 2);
  params.begin_step(program);
  run_micro(bench.stream(), params, 0, 1);
  run_micro(bench.stream(), params, 1, 2);
  params.finish_gradients(bench.stream());
  params.publish_weights(bench.stream());
  for (const OwnedSlice& slice : params.owned())
    for (const float value : floats_of(bench.stream(), slice.grad))
      EXPECT_EQ(value, slice.name == "table" ? 6 : 3) << slice.name;
}

}  // namespace
}  // namespace sextant
