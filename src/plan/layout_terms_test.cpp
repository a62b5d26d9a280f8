#include "plan/layout_terms.h"
#include "plan/config_case.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "config/load.h"
#include "config/model_presets.h"
#include "plan/collective.h"
#include "plan/intensity.h"
#include "plan/layer_time.h"

namespace sextant {
namespace {

Case llama_70b() {
  DiskStorage storage;
  Case c;
  c.hardware = find_hardware(storage, "H100");
  c.shape = shape_of(*model_preset("llama-70b"), 8192);
  c.layout.tp = 8;
  c.layout.sequence = true;
  c.layout.pp = 4;
  c.layout.shard = 2;
  c.layout.zero = 1;
  c.global_batch = 64;
  return c;
}

TEST(AxisBytes, AreThoseOfTheTextbook) {
  const Case c = llama_70b();
  const double bsh = 8192.0 * 8192 * 2, micros = 32;
  const AxisBytes bytes = axis_bytes(c);
  // Tensor parallel: 8 bsh (t - 1) / t per layer; pipeline: bsh each way per boundary, sharded by
  // sequence parallel; ZeRO-1: gradients in fp32 and weights in bf16, once.
  EXPECT_DOUBLE_EQ(bytes.tp, micros * 20 * 8 * 7 / 8 * bsh);
  EXPECT_DOUBLE_EQ(bytes.pp, micros * 2 * bsh / 8);
  const double count = 20 * count_parameters(c.shape).layer / 8;
  EXPECT_DOUBLE_EQ(bytes.data, count * (4 + 2) / 2);
  EXPECT_EQ(bytes.cp, 0);
  EXPECT_GT(bytes.tp, bytes.data);
  EXPECT_GT(bytes.data, bytes.pp);
}

// MiB that the dry run counts for gpt2-124m, embedding and head included where a stage has them.
TEST(AxisBytes, OfGradientsAndWeightsAreThoseOfTheDryRun) {
  struct Row {
    Layout layout;
    double mib;
  };
  DiskStorage storage;
  Case c;
  c.hardware = find_hardware(storage, "H100");
  c.shape = shape_of(*model_preset("gpt2-124m"), 1024);
  c.practice.each_micro = true;
  c.global_batch = 8;
  for (const Row& row :
       {Row{{.dp = 8}, 831.0}, Row{{.shard = 8, .zero = 1}, 415.5 + 207.7},
        Row{{.shard = 8, .zero = 3}, 415.5 + 415.5}, Row{{.dp = 2, .tp = 4}, 121.4},
        Row{{.dp = 4, .pp = 2}, 468.9}, Row{{.dp = 2, .pp = 4}, 81.1}}) {
    c.layout = row.layout;
    EXPECT_NEAR(axis_bytes(c).data / (1 << 20) / row.mib, 1, 0.03) << to_text(row.layout);
  }
}

TEST(LayoutTerms, AddUpToTheStep) {
  const Case c = llama_70b();
  const Constants k;
  double sum = 0;
  for (const LayoutTerm& term : layout_terms(c, k)) {
    sum += term.seconds;
    EXPECT_FALSE(term.bound.empty()) << term.name;
  }
  EXPECT_NEAR(sum, simulated_step_time(c, k, 200'000).total(), 1e-9 * sum);
}

TEST(LayoutTerms, LatencyAndBandwidthAreEqualAtTheBalancedSize) {
  const Constants k;
  const Case c = llama_70b();
  const double bytes = balanced_bytes(c.hardware, k, 64, 8, 512);
  const LinkGroup group = group_of(64, 8, c.hardware);
  const double latency = collective_seconds(c.hardware, k, CollectiveKind::AllGather, 0, group);
  EXPECT_NEAR(bytes * 63 / 64 / bus_rate(c.hardware, k, group), latency, 1e-9);
}

TEST(LayoutTerms, MessagesOfTheEqualSizeTakeTwiceTheLatency) {
  const Constants k;
  const Case c = llama_70b();
  const std::vector<NetworkLevel> levels = network_levels(c, k);
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].name, "NVLink domain");
  EXPECT_GT(levels[0].rate, levels[1].rate);
  for (const NetworkLevel& level : levels) {
    const LinkGroup pair{2, level.name == "network" ? 1 : 2, 1};
    EXPECT_NEAR(collective_seconds(c.hardware, k, CollectiveKind::Send, level.equal_bytes(), pair),
                2 * level.latency, 1e-9);
  }
  std::vector<std::string> axes;
  for (const AxisLatency& axis : axis_latencies(c, k)) {
    axes.push_back(axis.axis);
    EXPECT_GT(axis.latency, 0) << axis.axis;
    EXPECT_GT(axis.equal_bytes, 0) << axis.axis;
  }
  EXPECT_EQ(axes.front(), "tp");
  EXPECT_EQ(axes.back(), "pp");
}

// 8 bytes for each parameter of a layer against 16 for each hidden value.
TEST(LayoutTerms, ZeroThreeLosesBelowTheTokensAtWhichBothSendTheSame) {
  Case c = llama_70b();
  const StatesOrActivations sent = states_or_activations(c);
  EXPECT_DOUBLE_EQ(sent.parameter_bytes, 8 * count_parameters(c.shape).layer);
  EXPECT_NEAR(sent.equal_tokens / sent.tokens, sent.parameter_bytes / sent.activation_bytes, 1e-9);
  c.numerics.reduce_bytes = 2;
  EXPECT_DOUBLE_EQ(states_or_activations(c).parameter_bytes, 6 * count_parameters(c.shape).layer);
}

TEST(LayoutTerms, ALayoutIsReadFromAConfiguration) {
  const std::vector<std::string> none;
  const Config config =
      parse_config(
          "[model]\npreset = \"tiny-llama\"\n[batch]\nglobal = 32\nmicro = 2\n"
          "[parallel]\nshard = 2\nzero = 2\ntp = 2\npp = 2\nschedule = \"zb-h1\"\n",
          "run.toml", none)
          .config;
  const Layout layout = layout_of(config);
  EXPECT_EQ(to_text(layout), "shard 2 · zero 2 · tp 2 · pp 2 · zb-h1 · micro 2");
  EXPECT_EQ(layout.world(), 8);
}

// Tokens that a rank routes do not depend on etp; its parts have twice the rows, half as wide, and
// what is gathered and summed costs time.
TEST(LayoutTerms, PartsOfExpertsAreReadPricedAndWritten) {
  DiskStorage storage;
  const std::vector<std::string> none;
  const Config config =
      parse_config(
          "[model]\npreset = \"mixtral-8x7b\"\nseq = 4096\n[batch]\nglobal = 32\nmicro = 1\n"
          "[parallel]\nshard = 16\nzero = 1\nep = 4\netp = 2\n",
          "run.toml", none)
          .config;
  const PlanRequest request = request_of(config, {find_hardware(storage, "H100"), 16});
  const Layout layout = layout_of(config);
  EXPECT_EQ(to_text(layout), "shard 16 · zero 1 · ep 4 · etp 2 · micro 1");
  const std::string written = to_run_file(request, layout);
  EXPECT_NE(written.find("\nep = 4\n"), std::string::npos) << written;
  EXPECT_NE(written.find("\netp = 2\n"), std::string::npos) << written;
  Case parts{request.hardware, request.shape, {}, {}, layout, 32};
  Case whole = parts;
  whole.layout.etp = 1;
  const Constants k;
  const LayerTime two = layer_time(parts, k, PricedLayer::Experts),
                  one = layer_time(whole, k, PricedLayer::Experts);
  EXPECT_GT(two.ep_forward, one.ep_forward);
  EXPECT_GT(two.ep_backward, one.ep_backward);
  EXPECT_NEAR(two.forward, one.forward, 0.05 * one.forward);
}

TEST(Intensity, LargeMatricesAreBoundByComputeAndNormsByMemory) {
  DiskStorage storage;
  Case c;
  c.hardware = find_hardware(storage, "H100");
  c.shape.layers = 1;
  c.shape.hidden = 4096;
  c.shape.heads = c.shape.kv_heads = 32;
  c.shape.head_dim = 128;
  c.shape.ffn = 4096;
  c.shape.vocab = 32000;
  c.shape.seq = 4096;
  c.shape.gated = false;
  EXPECT_NEAR(ridge_point(c.hardware), 295, 1);
  for (const OpIntensity& op : op_intensities(c)) {
    // m = n = k = 4096: 2 n^3 FLOPs over 3 n^2 values of two bytes.
    if (op.name == "MLP, down") {
      EXPECT_DOUBLE_EQ(op.intensity(), 4096.0 / 3);
    }
    if (op.name == "attention") {
      EXPECT_DOUBLE_EQ(op.intensity(), 4096.0 / 4);
    }
    EXPECT_EQ(bound_of(op, c.hardware), op.name == "norm" ? "memory" : "compute") << op.name;
  }
  c.shape.seq = 64;  // few rows: every matrix is read for little work
  for (const OpIntensity& op : op_intensities(c)) EXPECT_EQ(bound_of(op, c.hardware), "memory");
}

}  // namespace
}  // namespace sextant
