#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/parse.h"
#include "support/training_test.h"
#include "train/verify.h"

namespace sextant {

using Settings = std::vector<std::string>;

inline Settings operator+(Settings left, const Settings& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// A model that trains in milliseconds, with as many layers as are asked for.
inline constexpr const char* kGpt2 = R"(
[model]
family = "gpt2"
hidden = 16
heads = 2
ffn = 24
vocab = 259
seq = 8
)";
inline constexpr const char* kLlama = R"(
[model]
family = "llama"
hidden = 16
heads = 4
kv_heads = 2
ffn = 20
vocab = 259
seq = 8
)";
inline constexpr const char* kQwen3 = R"(
[model]
family = "qwen3"
hidden = 16
heads = 4
kv_heads = 2
head_dim = 6
ffn = 20
vocab = 259
seq = 8
)";

// A pipeline: its schedule, ranks, chunks of a rank, and micro-batches of a step.
struct Piped {
  std::string schedule;
  int ranks, micros, chunks = 1;

  bool is_mirrored() const { return schedule == "dualpipe"; }
  bool is_v() const { return schedule.starts_with("v-") || schedule.ends_with("-v"); }
  bool splits_backward() const {
    return is_v() || schedule.starts_with("zb-") || schedule.ends_with("-zb");
  }
  int stages() const { return is_mirrored() ? ranks : ranks * (is_v() ? 2 : chunks); }
  Settings settings() const {
    return {"parallel.pp=" + std::to_string(ranks), "parallel.schedule=" + schedule,
            "parallel.chunks=" + std::to_string(chunks),
            "batch.accumulation=" + std::to_string(micros)};
  }
};

inline void PrintTo(const Piped& piped, std::ostream* out) {
  *out << piped.schedule << " on " << piped.ranks << " ranks, " << piped.micros << " micros, "
       << piped.chunks << " chunks";
}

// Every schedule on so many ranks, micro-batches not a multiple of them where that may be.
inline std::vector<Piped> every_schedule(int ranks) {
  const int m = 2 * ranks + 1;
  std::vector<Piped> all;
  for (const char* name :
       {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-auto", "zb-v", "v-half", "v-min", "dualpipe-v"})
    all.push_back({name, ranks, m, 1});
  for (const char* name : {"interleaved", "looped-bfs", "interleaved-zb"})
    all.push_back({name, ranks, m, 2});
  if (ranks % 2 == 0) all.push_back({"dualpipe", ranks, m + 1, 1});
  return all;
}

class PipelineTest : public TrainingTest {
 protected:
  // A model of one block a stage, unless `settings` say otherwise.
  static ResolvedConfig config(const char* model, const Piped& piped, const Settings& settings) {
    return parse_config(model, "test",
                        piped.settings() +
                            Settings{"model.layers=" + std::to_string(piped.stages()),
                                     "batch.micro=1", "run.threads=1", "optim.lr=1e-2"} +
                            settings);
  }
  VerifyReport verify(const char* model, const Piped& piped, const Settings& settings,
                      const std::string& against = "") {
    return verify_layout(config(model, piped, settings).config, {2, against},
                         {disk_, clock_, log_, stop_});
  }
};

}  // namespace sextant
