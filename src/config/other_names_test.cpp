#include "config/other_names.h"

#include <gtest/gtest.h>

#include "config/keys.h"
#include "config/model_presets.h"

namespace sextant {
namespace {

TEST(OtherNames, OfKeysLeadToKeysThatExist) {
  for (const char* name : {"learning_rate",
                           "fsdp",
                           "data_parallel_size",
                           "n_layer",
                           "tensor-model-parallel-size",
                           "parallelism.data_parallel_shard_degree",
                           "moe_router_topk",
                           "gradient_checkpointing",
                           "save_total_limit",
                           "recompute_num_layers",
                           "tp_comm_overlap",
                           "layer_norm_epsilon",
                           "cp_comm_type",
                           "eval_iters",
                           "hidden_dropout",
                           "backend",
                           "dtype",
                           "dataset_path",
                           "bf16",
                           "checkpoint.folder",
                           "model.name",
                           "hsdp",
                           "epochs",
                           "enable_profiling",
                           "report_to",
                           "num-layers-per-virtual-pipeline-stage",
                           "distributed-timeout-minutes",
                           "save",
                           "val_data"})
    EXPECT_NE(find_key(key_for_other_name(name)), nullptr) << name;
  EXPECT_EQ(key_for_other_name("learning_rate"), "optim.lr");
  EXPECT_EQ(key_for_other_name("--tensor-model-parallel-size"), "");
  EXPECT_EQ(key_for_other_name("nothing"), "");
  EXPECT_EQ(key_for_other_name("checkpoint.interval"), "checkpoint.every");
  EXPECT_EQ(key_for_other_name("interval"), "");  // of what?
  EXPECT_EQ(key_for_other_name("activation-checkpoint.mode"), "memory.recompute");
  EXPECT_EQ(key_meant_by("min-lr"), "optim.min_lr");
}

TEST(OtherNames, OfModelsLeadToTheirPresets) {
  const std::pair<const char*, const char*> names[] = {
      {"gpt2", "gpt2-124m"},
      {"openai-community/gpt2-xl", "gpt2-1558m"},
      {"Llama-3.1-8B", "llama-8b"},
      {"meta-llama/Meta-Llama-3-70B-Instruct", "llama-70b"},
      {"meta-llama/Llama-3.2-1B", "llama-1b"},
      {"llama3:8b", "llama-8b"},
      {"meta-llama/Llama-2-7b-hf", "llama2-7b"},
      {"Qwen/Qwen3-0.6B", "qwen3-0.6b"},
      {"Qwen3-30B-A3B-Base", "qwen3-30b-a3b"},
      {"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"},
      {"TinyLlama/TinyLlama-1.1B-Chat-v1.0", "tinyllama-1.1b"},
      {"deepseek-ai/DeepSeek-V3", "deepseek-v3"},
      {"moonshotai/Kimi-K2-Instruct", "kimi-k2"},
  };
  for (const auto& [theirs, ours] : names) {
    EXPECT_EQ(preset_for_other_name(theirs), ours) << theirs;
    EXPECT_TRUE(model_preset(ours)) << ours;
    EXPECT_EQ(did_you_mean_preset(theirs), std::string(", did you mean '") + ours + "'?");
  }
  EXPECT_EQ(preset_for_other_name("llama-3.1-9B"), "");
  EXPECT_EQ(preset_for_other_name(""), "");
  EXPECT_EQ(did_you_mean_preset("gpt2-124n"), ", did you mean 'gpt2-124m'?");
}

TEST(OtherNames, OfValuesLeadToAChoiceThatTheKeyHas) {
  EXPECT_EQ(value_for_other_name("gpu", {"cpu", "cuda"}), "cuda");
  EXPECT_EQ(value_for_other_name("gpu", {"threads", "mpi"}), "");
  EXPECT_EQ(value_for_other_name("bfloat16", {"fp32", "bf16"}), "bf16");
  Config config;
  EXPECT_EQ(find_key("run.device")->set(config, std::string("gpu")),
            "takes cpu or cuda, did you mean 'cuda'?");
  EXPECT_EQ(find_key("optim.name")->set(config, std::string("adam")),
            "takes adamw or sgd, did you mean 'adamw'?");
}

TEST(OtherNames, AKeyWithoutItsSectionIsMeantWhereItIsTheOnlyOne) {
  EXPECT_EQ(key_meant_by("lr"), "optim.lr");
  EXPECT_EQ(key_meant_by("fsdp"), "parallel.shard");
  EXPECT_EQ(key_meant_by("name"), "optim.name");
  EXPECT_EQ(key_meant_by("schedule"), "");  // of optim and of parallel
  EXPECT_EQ(key_meant_by("resme"), "");
}

}  // namespace
}  // namespace sextant
