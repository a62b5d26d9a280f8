#include "train/kept_tensors.h"

#include <cstring>

#include "support/expect_error.h"
#include "support/small_phantom.h"

namespace sextant {
namespace {

constexpr size_t kAttentionLayer = 1;  // of the blueprint, after the embedding

class KeptTensors : public testing::Test {
 protected:
  KeptTensors()
      : config_(preset_config("tiny-qwen3", {"model.layers=1", "batch.accumulation=1"})),
        flight_(phantom_flight(config_)),
        trace_(trace_phantom(config_, flight_, 0, nullptr)) {}

  std::vector<KeptTensor> kept() const {
    return kept_tensors(trace_, flight_.blueprint, kAttentionLayer);
  }
  void rename(const char* from, const char* to) {
    for (TraceOp& op : trace_.ops)
      if (std::strcmp(op.name, from) == 0) op.name = to;
  }

  Config config_;
  Preflight flight_;
  Trace trace_;
};

// 64 tokens, width 64, 8 query and 4 key-value heads of 16, ffn 128, in 4 bytes.
TEST_F(KeptTensors, AreNamedByTheOperationThatWritesThem) {
  struct Wanted {
    LayerKind layer;
    Kept kind;
    int64_t elements;
  };
  const Wanted wanted[] = {
      {LayerKind::Attention, Kept::Input, 64},    {LayerKind::Attention, Kept::Statistics, 1},
      {LayerKind::Attention, Kept::Normed, 64},   {LayerKind::Attention, Kept::RawQkv, 16 * 16},
      {LayerKind::Attention, Kept::Qkv, 16 * 16}, {LayerKind::Attention, Kept::HeadStatistics, 12},
      {LayerKind::Attention, Kept::LogSumExp, 8}, {LayerKind::Attention, Kept::Attended, 8 * 16},
      {LayerKind::Mlp, Kept::Input, 64},          {LayerKind::Mlp, Kept::Statistics, 1},
      {LayerKind::Mlp, Kept::Normed, 64},         {LayerKind::Mlp, Kept::Wide, 2 * 128},
      {LayerKind::Mlp, Kept::Active, 128}};
  const std::vector<KeptTensor> tensors = kept();
  EXPECT_EQ(tensors.size(), std::size(wanted));
  for (const Wanted& one : wanted)
    EXPECT_EQ(std::ranges::count_if(tensors,
                                    [&](const KeptTensor& tensor) {
                                      return tensor.layer == one.layer && tensor.kind == one.kind &&
                                             tensor.bytes == 4 * 64 * one.elements &&
                                             tensor.dtype == DType::F32;
                                    }),
              1)
        << static_cast<int>(one.layer) << " " << static_cast<int>(one.kind);
}

TEST_F(KeptTensors, AnOperationWithoutANameIsRefused) {
  rename("swiglu", "another");
  EXPECT_ERROR(kept(), Internal, "that another writes, a tensor without a name");
}

TEST_F(KeptTensors, TwoTensorsOfOneNameAreRefused) {
  rename("swiglu", "matmul");
  EXPECT_ERROR(kept(), Internal, "keeps 2 tensors of kind");
}

TEST_F(KeptTensors, ATensorThatNobodyWritesIsRefused) {
  for (TraceOperand& operand : trace_.operand_list) operand.is_written = false;
  EXPECT_ERROR(kept(), Internal, "that no operation of it writes");
}

TEST_F(KeptTensors, AModelWithoutTheLayerIsRefused) {
  for (TraceOp& op : trace_.ops) op.scope.layer = -1;
  EXPECT_ERROR(kept(), Internal, "no forward of layer 1");
}

}  // namespace
}  // namespace sextant
