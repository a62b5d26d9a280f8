#include "config/other_names.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/parse.h"
#include "config/model_presets.h"

namespace sextant {
namespace {

// Of Megatron-LM, torchtitan, DeepSpeed, transformers, nanoGPT. With a section where the last part
// alone could be another's.
struct OtherName {
  std::string_view theirs, ours;
};
constexpr OtherName kKeys[] = {
    {"learning_rate", "optim.lr"},
    {"min_learning_rate", "optim.min_lr"},
    {"grad_clip", "optim.clip"},
    {"gradient_clipping", "optim.clip"},
    {"max_grad_norm", "optim.clip"},
    {"max_norm", "optim.clip"},
    {"clip_grad", "optim.clip"},
    {"warmup_steps", "optim.warmup"},
    {"warmup_iters", "optim.warmup"},
    {"lr_warmup_iters", "optim.warmup"},
    {"lr_decay_style", "optim.schedule"},
    {"lr_scheduler_type", "optim.schedule"},
    {"lr_scheduler", "optim.schedule"},
    {"optimizer", "optim.name"},
    {"adam_beta1", "optim.beta1"},
    {"adam_beta2", "optim.beta2"},
    {"adam_eps", "optim.eps"},
    {"adam_epsilon", "optim.eps"},
    {"max_steps", "train.steps"},
    {"max_iters", "train.steps"},
    {"train_iters", "train.steps"},
    {"training_steps", "train.steps"},
    {"log_interval", "train.log_every"},
    {"log_freq", "train.log_every"},
    {"logging_steps", "train.log_every"},
    {"eval_interval", "train.eval_every"},
    {"eval_steps", "train.eval_every"},
    {"eval_iters", "train.eval_batches"},
    {"save_interval", "checkpoint.every"},
    {"save_steps", "checkpoint.every"},
    {"save_total_limit", "checkpoint.keep"},
    {"output_dir", "run.out"},
    {"out_dir", "run.out"},
    {"dataset", "data.path"},
    {"data_path", "data.path"},
    {"dataset_path", "data.path"},
    {"tokenizer_path", "data.tokenizer"},
    {"tokenizer_model", "data.tokenizer"},
    {"fsdp", "parallel.shard"},
    {"fsdp_size", "parallel.shard"},
    {"data_parallel_size", "parallel.dp"},
    {"data_parallel_degree", "parallel.dp"},
    {"data_parallel_replicate_degree", "parallel.dp"},
    {"data_parallel_shard_degree", "parallel.shard"},
    {"zero_stage", "parallel.zero"},
    {"zero_optimization", "parallel.zero"},
    {"use_distributed_optimizer", "parallel.zero"},
    {"tensor_model_parallel_size", "parallel.tp"},
    {"tensor_parallel_size", "parallel.tp"},
    {"tensor_parallel_degree", "parallel.tp"},
    {"tp_comm_overlap", "parallel.tp_overlap"},
    {"sequence_parallel", "parallel.sequence"},
    {"pipeline_model_parallel_size", "parallel.pp"},
    {"pipeline_parallel_size", "parallel.pp"},
    {"pipeline_parallel_degree", "parallel.pp"},
    {"pipeline_parallel_schedule", "parallel.schedule"},
    {"virtual_pipeline_model_parallel_size", "parallel.chunks"},
    {"context_parallel_size", "parallel.cp"},
    {"context_parallel_degree", "parallel.cp"},
    {"cp_comm_type", "parallel.cp_kind"},
    {"expert_model_parallel_size", "parallel.ep"},
    {"expert_parallel_size", "parallel.ep"},
    {"expert_tensor_parallel_size", "parallel.etp"},
    {"expert_tensor_parallel_degree", "parallel.etp"},
    {"expert_parallel_degree", "parallel.ep"},
    {"global_batch_size", "batch.global"},
    {"batch_size", "batch.global"},
    {"micro_batch_size", "batch.micro"},
    {"local_batch_size", "batch.micro"},
    {"per_device_train_batch_size", "batch.micro"},
    {"gradient_accumulation_steps", "batch.accumulation"},
    {"num_layers", "model.layers"},
    {"n_layer", "model.layers"},
    {"n_layers", "model.layers"},
    {"num_hidden_layers", "model.layers"},
    {"hidden_size", "model.hidden"},
    {"n_embd", "model.hidden"},
    {"dim", "model.hidden"},
    {"num_attention_heads", "model.heads"},
    {"n_head", "model.heads"},
    {"n_heads", "model.heads"},
    {"num_key_value_heads", "model.kv_heads"},
    {"num_query_groups", "model.kv_heads"},
    {"n_kv_heads", "model.kv_heads"},
    {"kv_channels", "model.head_dim"},
    {"intermediate_size", "model.ffn"},
    {"ffn_hidden_size", "model.ffn"},
    {"vocab_size", "model.vocab"},
    {"seq_length", "model.seq"},
    {"seq_len", "model.seq"},
    {"block_size", "model.seq"},
    {"max_position_embeddings", "model.seq"},
    {"tie_word_embeddings", "model.tied"},
    {"rms_norm_eps", "model.norm_eps"},
    {"layer_norm_epsilon", "model.norm_eps"},
    {"hidden_dropout", "model.dropout"},
    {"num_experts", "model.experts"},
    {"num_local_experts", "model.experts"},
    {"num_experts_per_tok", "model.experts_per_token"},
    {"moe_router_topk", "model.experts_per_token"},
    {"moe_intermediate_size", "model.expert_ffn"},
    {"moe_ffn_hidden_size", "model.expert_ffn"},
    {"activation_checkpointing", "memory.recompute"},
    {"activation_checkpoint", "memory.recompute"},
    {"gradient_checkpointing", "memory.recompute"},
    {"recompute_granularity", "memory.recompute"},
    {"recompute_num_layers", "memory.recompute_layers"},
    {"cpu_offload", "memory.offload"},
    {"dtype", "precision.compute"},
    {"mixed_precision", "precision.compute"},
    {"timeout", "fault.deadline"},
    {"init_timeout_seconds", "fault.deadline"},
    {"distributed_timeout_minutes", "fault.deadline"},
    {"bf16", "precision.compute"},
    {"fp16", "precision.compute"},
    {"fp8", "precision.compute"},
    {"amp", "precision.compute"},
    {"mixed_precision_param", "precision.compute"},
    {"max_epochs", "train.steps"},
    {"num_train_epochs", "train.steps"},
    {"epochs", "train.steps"},
    {"decay_type", "optim.schedule"},
    {"decay_lr", "optim.schedule"},
    {"checkpoint.interval", "checkpoint.every"},
    {"checkpoint.folder", "checkpoint.dir"},
    {"save", "checkpoint.dir"},
    {"keep_latest_k", "checkpoint.keep"},
    {"dump_folder", "run.out"},
    {"enable_profiling", "run.trace"},
    {"profile", "run.trace"},
    {"report_to", "run.tensorboard"},
    {"model", "model.preset"},
    {"flavor", "model.preset"},
    {"model.name", "model.preset"},
    {"swiglu", "model.family"},
    {"ddp", "parallel.dp"},
    {"fsdp2", "parallel.shard"},
    {"hsdp", "parallel.shard"},
    {"deepspeed", "parallel.zero"},
    {"data", "data.path"},
    {"train_data", "data.path"},
    {"val_data", "data.eval_path"},
    {"num_layers_per_virtual_pipeline_stage", "parallel.chunks"},
    {"activation_checkpoint.mode", "memory.recompute"},
    {"backend", "run.transport"},
};

constexpr OtherName kValues[] = {
    {"gpu", "cuda"},         {"nvidia", "cuda"},  {"bfloat16", "bf16"}, {"float16", "fp16"},
    {"half", "fp16"},        {"float32", "fp32"}, {"float", "fp32"},    {"float8", "fp8"},
    {"adam", "adamw"},       {"jsonl", "text"},   {"txt", "text"},      {"bin", "tokens"},
    {"random", "synthetic"}, {"true", "full"},    {"a2a", "ulysses"},   {"p2p", "ring"},
    {"gloo", "mpi"},
};

// The whole name, or how it begins and what stands there with us.
constexpr OtherName kModels[] = {
    {"gpt2", "gpt2-124m"},       {"gpt2-small", "gpt2-124m"}, {"gpt2-medium", "gpt2-355m"},
    {"gpt2-large", "gpt2-774m"}, {"gpt2-xl", "gpt2-1558m"},   {"gpt3", "gpt3-175b"},
    {"gpt-2", "gpt2-124m"},      {"gpt-3", "gpt3-175b"},      {"deepseek", "deepseek-v3"},
    {"mixtral", "mixtral-8x7b"},
};
constexpr OtherName kBegins[] = {
    {"llama-3.1-", "llama-"}, {"llama-3.2-", "llama-"}, {"llama-3.3-", "llama-"},
    {"llama-3-", "llama-"},   {"llama3.1-", "llama-"},  {"llama3.2-", "llama-"},
    {"llama3-", "llama-"},    {"llama-2-", "llama2-"},  {"tinyllama-", "tinyllama-"},
};

std::string plain(std::string_view name) {
  name = name.substr(name.rfind('/') + 1);
  if (name.starts_with("meta-") || name.starts_with("Meta-")) name.remove_prefix(5);
  std::string out;
  for (const char ch : name)
    out += ch == '_' || ch == ':' ? '-'
                                  : static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
  return out;
}

}  // namespace

std::string_view key_for_other_name(std::string_view name) {
  std::string whole(name);
  std::ranges::replace(whole, '-', '_');
  const std::string last = whole.substr(whole.rfind('.') + 1);
  for (const OtherName& other : kKeys)
    if (other.theirs == whole || other.theirs == last) return other.ours;
  return "";
}

std::string_view value_for_other_name(std::string_view name, const std::vector<std::string>& ours) {
  for (const OtherName& other : kValues)
    if (other.theirs == name && std::ranges::find(ours, other.ours) != ours.end())
      return other.ours;
  return "";
}

std::string preset_for_other_name(std::string_view name) {
  std::string wanted = plain(name);
  for (const OtherName& other : kModels)
    if (other.theirs == wanted) return std::string(other.ours);
  for (const OtherName& begin : kBegins)
    if (wanted.starts_with(begin.theirs)) {
      wanted.replace(0, begin.theirs.size(), begin.ours);
      break;
    }
  std::string best;  // the longest that the name begins with: others add "-instruct", "-v0.1"
  for (const std::string& preset : model_preset_names())
    if (preset.size() > best.size() && wanted.starts_with(preset) &&
        (wanted.size() == preset.size() || wanted[preset.size()] == '-'))
      best = preset;
  return best;
}

std::string did_you_mean_preset(std::string_view name) {
  const std::string other = preset_for_other_name(name);
  return other.empty() ? did_you_mean(name, model_preset_names())
                       : ", did you mean '" + other + "'?";
}

}  // namespace sextant
