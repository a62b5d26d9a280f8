#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "base/parse.h"
#include "train/verify.h"

namespace sextant {

inline constexpr const char* kVerifyGpt2 = R"(
[model]
family = "gpt2"
layers = 2
hidden = 16
heads = 2
ffn = 24
vocab = 259
seq = 16
)";
inline constexpr const char* kVerifyLlama = R"(
[model]
family = "llama"
layers = 2
hidden = 24
heads = 4
kv_heads = 2
ffn = 20
vocab = 256
seq = 16
tied = false
)";

struct ShardLayout {
  int dp, shard, zero;
  int ranks() const { return dp * shard; }
};

class Verify : public testing::Test {
 protected:
  VerifyReport verify(const char* model, const ShardLayout& layout,
                      std::vector<std::string> overrides = {}, const std::string& against = "") {
    overrides.push_back("parallel.dp=" + std::to_string(layout.dp));
    overrides.push_back("parallel.shard=" + std::to_string(layout.shard));
    overrides.push_back("parallel.zero=" + std::to_string(layout.zero));
    overrides.push_back("optim.lr=1e-2");
    return verify_layout(parse_config(model, "test", overrides).config, {2, against},
                         {disk_, clock_, log_, stop_});
  }
  // Equally many sequences per rank and micro-batch.
  static std::vector<std::string> batch(int64_t micro, int64_t accumulation) {
    return {"batch.micro=" + std::to_string(micro),
            "batch.accumulation=" + std::to_string(accumulation)};
  }

  DiskStorage disk_;
  SystemClock clock_;
  Log log_{LogLevel::Quiet, Color::Never};
  std::atomic<bool> stop_{false};
};

// Parameters that a report calls wrong.
inline std::vector<std::string> names_of_bugs(const VerifyReport& report) {
  std::vector<std::string> names;
  for (const TensorVerdict& tensor : report.tensors)
    if (tensor.verdict == Verdict::Bug) names.push_back(tensor.name);
  return names;
}

inline bool is_of(const std::vector<std::string>& names, const std::string& group) {
  return !names.empty() && std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return name.starts_with(group);
  });
}

}  // namespace sextant
