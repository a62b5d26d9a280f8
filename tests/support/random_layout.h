#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parse.h"
#include "base/random.h"
#include "config/load.h"
#include "program/pipeline.h"
#include "train/preflight.h"

namespace sextant {

// How tokens choose experts: with Balanced, what a step does follows from its layout alone.
enum class DrawnRouting { Balanced, Learned };

// A legal configuration of a tiny model, drawn from a seed over families, axes, schedules,
// optimizers and policies.
class RandomLayout {
 public:
  RandomLayout(uint64_t seed, int most_ranks, DrawnRouting routing = DrawnRouting::Balanced)
      : random_(seed, "layout"), most_ranks_(most_ranks), routing_(routing) {
    while (!draw()) settings_.clear();
  }

  const Config& config() const { return *config_; }
  std::string text() const { return join(settings_, " "); }

 private:
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(random_.below(from.size(), drawn_++))];
  }
  bool chance(int percent) { return static_cast<int>(random_.below(100, drawn_++)) < percent; }
  void set(const std::string& key, const std::string& value) {
    settings_.push_back(key + "=" + value);
  }
  void set(const std::string& key, int value) { set(key, std::to_string(value)); }

  void draw_model() {
    const std::string family = pick<std::string>(
        {"gpt2", "gpt2", "llama", "llama", "qwen3", "deepseek-moe", "mixtral", "qwen3-moe"});
    set("model.family", family);
    set("model.hidden", pick<int>({16, 24, 32}));
    set("model.heads", pick<int>({4, 8}));
    if (family != "gpt2" && family != "deepseek-moe") set("model.kv_heads", pick<int>({1, 2, 4}));
    if (family == "deepseek-moe") draw_latent();
    if (family == "deepseek-moe" || family == "mixtral" || family == "qwen3-moe")
      draw_experts(family);
    if (family.starts_with("qwen3")) set("model.head_dim", pick<int>({6, 8}));
    set("model.ffn", pick<int>({24, 40, 48}));
    set("model.vocab", pick<int>({259, 300}));
    set("model.seq", pick<int>({16, 32}));
    set("model.tied", chance(50) ? "true" : "false");
    if (chance(25)) set("model.dropout", "0.1");
    if (chance(25)) set("train.z_loss", "1e-3");
    if (chance(30)) set("memory.logits", "chunked");
    if (chance(50)) {
      set("memory.recompute", pick<std::string>({"cheap", "selective", "full"}));
      if (chance(30)) set("memory.recompute_layers", 1);
    }
    if (chance(15)) set("optim.name", "sgd");
    if (chance(35)) set("memory.offload", pick<std::string>({"optimizer", "activations", "both"}));
  }

  void draw_latent() {
    set("model.head_dim", 6);
    set("model.qk_rope_head_dim", 2);
    set("model.v_head_dim", pick<int>({4, 6}));
    set("model.q_lora_rank", pick<int>({0, 10}));
    set("model.kv_lora_rank", 8);
    set("model.shared_experts", pick<int>({0, 1}));
    set("model.dense_layers", pick<int>({0, 1}));
  }

  void draw_experts(const std::string& family) {
    has_experts_ = true;
    set("model.experts", 4);
    set("model.experts_per_token", pick<int>({1, 2, 3}));
    set("model.expert_ffn", 16);
    const int ep = pick<int>({1, 2, 2, 4});
    set("parallel.ep", ep);
    if (ep == 4 && chance(50)) set("parallel.ep_node", 2);
    if (routing_ == DrawnRouting::Balanced) {
      set("model.router", "balanced");
      return;
    }
    if (family == "deepseek-moe" && chance(60)) {
      set("model.router", "sigmoid");
      set("model.router_groups", pick<int>({1, 2}));
    } else {
      set("model.router", pick<std::string>({"softmax-after", "softmax-before"}));
    }
    if (chance(50)) {
      set("train.balance_loss", "0.01");
      set("train.balance_scope", pick<std::string>({"micro", "sequence", "global"}));
    }
    if (chance(30)) set("train.router_z_loss", "1e-3");
    if (chance(30)) set("train.capacity_factor", pick<std::string>({"1", "1.25", "2"}));
  }

  // Of the families that have them; where the model's has not, nothing is set.
  void draw_features() {
    if (settings_.front() == "model.family=llama") {
      const std::string family = pick<std::string>({"llama", "llama", "mistral", "qwen2"});
      settings_.front() = "model.family=" + family;
      if (family == "llama") {
        set("model.attention_bias", chance(40) ? "true" : "false");
        set("model.mlp_bias", chance(40) ? "true" : "false");
      } else if (chance(60)) {
        set("model.sliding_window", pick<int>({1, 5, 12, 40}));
      }
    }
    if (settings_.front() == "model.family=gpt2" || !chance(40)) return;
    set("model.rope_factor", "4");
    set("model.rope_type", pick<std::string>({"llama3", "linear", "yarn"}));
    set("model.rope_original_seq", 8);
    if (chance(50)) set("model.rope_mscale_all_dim", "0.7");
  }

  void draw_precision() {
    if (chance(50)) return;
    const uint64_t drawn = random_.below(100, drawn_++);
    const std::string compute = drawn < 45 ? "bf16" : drawn < 70 ? "fp8" : "fp16";
    set("precision.compute", compute);
    if (compute == "fp8")
      set("precision.fp8_recipe", pick<std::string>({"tensor", "delayed", "block"}));
    if (chance(50)) set("precision.grads", compute == "fp8" ? "bf16" : compute);
    if (chance(40)) set("precision.moments", "bf16");
    if (chance(30) && compute == "bf16") set("precision.master", "none");
  }

  void draw_axes() {
    const int shard = pick<int>({1, 1, 2, 3, 4});
    set("parallel.dp", pick<int>({1, 1, 2}));
    set("parallel.shard", shard);
    if (shard > 1) set("parallel.zero", pick<int>({1, 2, 3}));
    const int tp = pick<int>({1, 1, 2, 4, 8});
    set("parallel.tp", tp);
    if (tp > 1 && chance(30)) set("parallel.sequence", "false");
    if (tp > 1 && chance(25)) set("parallel.tp_overlap", "true");
    const int cp = pick<int>({1, 1, 2, 4, 8});
    set("parallel.cp", cp);
    if (cp == 1) return;
    const std::string kind =
        pick<std::string>({"ring", "ulysses", "allgather", "ring+ulysses", "ring+ulysses"});
    set("parallel.cp_kind", kind);
    if (kind == "ring+ulysses" && chance(50)) set("parallel.ulysses", pick<int>({2, 4}));
  }

  void draw_pipeline() {
    const int pp = pick<int>({1, 1, 2, 3, 4});
    set("parallel.pp", pp);
    set("batch.micro", pick<int>({1, 2}));
    set("batch.accumulation", pick<int>({1, 2, 3, 4, 8, 9}));
    set("model.layers", pick<int>({2, 3, 4, 6, 8}));
    if (pp == 1) return;
    set("parallel.schedule",
        pick<std::string>({"gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2",
                           "interleaved-zb", "zb-auto", "zb-v", "v-half", "v-min", "dualpipe",
                           "dualpipe-v"}));
    if (chance(30)) set("parallel.chunks", 2);
    if (chance(30)) set("parallel.split", "balanced");
    // Nothing is clipped unless it is asked for: then what a step does follows from its layout.
    if (chance(30)) set("optim.post_validation", "true");
    set("optim.clip", chance(20) ? "0" : "1e6");
  }

  // The balanced router gives every expert of a rank as many rows as the next only where its tokens
  // make it so.
  bool divides_tokens(const Config& config) const {
    if (!has_experts_ || routing_ == DrawnRouting::Learned) return true;
    const ParallelConfig& parallel = config.parallel;
    const int64_t ranks = int64_t{parallel.cp} * parallel.tp;
    const int64_t tokens = config.batch.micro * config.model.seq;
    return tokens % ranks == 0 &&
           tokens / ranks * config.model.experts_per_token % config.model.experts == 0;
  }

  bool draw() {
    has_experts_ = false;
    draw_model();
    draw_axes();
    draw_pipeline();
    draw_precision();
    draw_features();
    if (has_experts_) set("parallel.etp", pick<int>({1, 1, 2}));
    set("train.eval_every", chance(70) ? 1 : 0);
    set("train.eval_batches", 1);
    set("run.threads", 1);
    set("train.steps", 4);
    try {
      const Config config = parse_config("", "random", settings_).config;
      if (world_size(config.parallel) > most_ranks_) return false;
      if (!divides_tokens(config)) return false;
      make_pipeline(make_blueprint(config.model, tensor_part(config.parallel, 0)), config.parallel,
                    static_cast<int>(config.batch.accumulation));
      config_ = config;
    } catch (const Error&) {
      return false;  // another one
    }
    return true;
  }

  Random random_;
  int most_ranks_;
  DrawnRouting routing_;
  uint64_t drawn_ = 0;
  bool has_experts_ = false;
  std::vector<std::string> settings_;
  std::optional<Config> config_;
};

}  // namespace sextant
