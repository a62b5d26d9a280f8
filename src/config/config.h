#pragma once
#include <cstdint>
#include <string>

#include "base/number_types.h"

namespace sextant {

// All settings of a run as plain values. Made by load_config (load.h), which has checked them; the
// code below reads them without checking again. The table of keys (keys.h) maps each field to its
// name, its help text and its accepted values.

enum class Family { Gpt2, Llama, Mistral, Qwen2, Qwen3, Mixtral, Qwen3Moe, DeepseekMoe };
const char* name_of(Family family);  // "gpt2"
bool has_experts(Family family);     // mixture of experts in place of the MLP
// How a router chooses experts and weighs them.
//   SoftmaxAfter   the largest logits, then a softmax over them
//   SoftmaxBefore  a softmax over all experts, then its largest values as they are
//   Balanced       every expert in turn, whatever the logits: for measurements
//   Sigmoid        the largest sigmoids plus a bias that balances them (DeepSeek-V3)
enum class RouterKind { SoftmaxAfter, SoftmaxBefore, Balanced, Sigmoid };
// The tokens over which the routers' balance loss is taken.
//   Sequence  those of each sequence
//   Micro     those of each micro-batch
//   Global    the choices of the last step's global batch, the probabilities of each micro-batch
enum class BalanceScope { Sequence, Micro, Global };
enum class DataKind { Builtin, Synthetic, Tokens, Text };
enum class TokenFormat { Auto, Sextant, LlmC, NanoGpt, Megatron };
enum class OptimizerKind { AdamW, Sgd };
enum class LrSchedule { Constant, Linear, Cosine, Wsd };
enum class RunDevice { Cpu, Cuda };
enum class Transport { Threads, Mpi, Nccl };
enum class ComputeType { Fp32, Bf16, Fp16, Fp8, Fp64 };  // Fp64: of verify, not a setting
enum class MasterWeights { Fp32, None };
enum class LogitsPolicy { Keep, Chunked };
// What backward computes again of a transformer layer.
//   Cheap      norm outputs and the product of SwiGLU
//   Selective  the attention core
//   Full       the layer, from its input
enum class Recompute { None, Cheap, Selective, Full };
const char* name_of(Recompute recompute);  // "cheap"
// What is kept in host memory and copied to the device when it is needed.
enum class Offload { None, Optimizer, Activations, Both };
enum class Reductions { Ordered, Fast, Exact };
// Kinds of context parallel attention.
//   Ring         keys and values travel around while each rank attends to what it has
//   Ulysses      each rank gets all tokens of some heads, and gives them back
//   AllGather    every rank gets the keys and values of all
//   RingUlysses  Ulysses within groups of ranks, a ring of such groups
enum class ContextKind { Ring, Ulysses, AllGather, RingUlysses };
const char* name_of(ContextKind kind);  // "ring+ulysses"

// Scaling of the rotary frequencies for a longer context, by the rope_type of Hugging Face.
enum class RopeType { Llama3, Linear, Yarn };
struct RopeScaling {
  double factor = 1;  // 1: none
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_seq = 8192;
  RopeType type = RopeType::Llama3;
  double beta_fast = 32, beta_slow = 1;   // of yarn: turns that bound the ramp
  double attention_factor = 0;            // of yarn; 0: from the factor and the mscales
  double mscale = 0, mscale_all_dim = 0;  // of yarn; 0: not set
  bool operator==(const RopeScaling&) const = default;
};

inline constexpr int64_t kWidestHead = 256;  // elements of one head that attention kernels take

struct ModelConfig {
  std::string preset;  // "" when the sizes are given one by one
  std::string hf;      // a Hugging Face directory that the sizes come from, or ""
  Family family = Family::Gpt2;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // = heads unless grouped
  int64_t head_dim = 0;  // = hidden / heads unless said
  // deepseek-moe: ranks of the latents of queries (0: none) and of keys and values, rotated columns
  // of head_dim, width of a value head.
  int64_t q_lora_rank = 0, kv_lora_rank = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  int64_t ffn = 0;                // 0 in models with experts in every layer
  int64_t experts = 0;            // of a layer; 0 in families without
  int64_t experts_per_token = 0;  // that the router chooses
  int64_t expert_ffn = 0;         // intermediate size of one expert
  int64_t shared_experts = 0;     // experts that every token uses, beside those it chooses
  int64_t dense_layers = 0;       // the first layers, which have an MLP in place of experts
  RouterKind router = RouterKind::SoftmaxAfter;
  // Of a sigmoid router: groups of experts, those that a token chooses from, whether the weights of
  // the chosen experts are divided by their sum, and a factor of them.
  int64_t router_groups = 1, groups_per_token = 1;
  bool router_normalize = true;
  double router_scale = 1;
  double router_bias_std = 0;  // of a sigmoid router's biases at the start
  bool router_load = false;    // routers know the load of the last step: train.balance_scope
  int64_t vocab = 0;
  int64_t seq = 0;  // longest sequence, in tokens
  bool tied = true;
  bool attention_bias = false;  // of queries, keys, values and the output projection
  bool mlp_bias = false;        // of a gated MLP
  int64_t sliding_window = 0;   // tokens that a token attends to, itself among them; 0: all
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  double norm_eps = 1e-5;
  bool gelu_exact = false;  // gpt2 family: erf instead of the tanh form
  double init_std = 0.02;
  double dropout = 0;  // chance of a hidden value to be dropped in training
  bool operator==(const ModelConfig&) const = default;
};

struct DataConfig {
  DataKind kind = DataKind::Builtin;
  std::string path;       // tokens, text: a file, a pattern or a directory
  std::string blend;      // several of them with weights, in place of path
  std::string eval_path;  // held-out file; "" means the split below
  std::string tokenizer;  // "" or "bytes", or the path of a tokenizer.json
  TokenFormat format = TokenFormat::Auto;
  double eval_fraction = 0.05;  // held-out share of `path` when there is no eval_path
  bool document_mask = true;    // tokens attend only inside their own document
  bool operator==(const DataConfig&) const = default;
};

// In sequences. Where it divides, global = micro * accumulation * data ranks; how it is cut
// otherwise is in batch_plan.h.
struct BatchConfig {
  int64_t global = 0;
  int64_t micro = 0;
  int64_t accumulation = 0;
  bool operator==(const BatchConfig&) const = default;
};

// Pipeline schedules by name.
inline constexpr const char* kSchedules[] = {
    "gpipe", "1f1b",    "interleaved", "looped-bfs", "zb-h1",    "zb-h2",     "interleaved-zb",
    "zb-v",  "zb-auto", "v-half",      "v-min",      "dualpipe", "dualpipe-v"};

struct ParallelConfig {
  int dp = 1, shard = 1;
  int zero = 0;  // what the ranks of `shard` divide: 1 optimizer, 2 and gradients, 3 and weights
  int tp = 1, cp = 1, pp = 1, ep = 1, etp = 1;
  int ep_node = 1;          // ranks of ep in a node, to which a token is sent once; 1: no nodes
  bool sequence = false;    // sequence parallel, with tp
  bool tp_overlap = false;  // and move them in pieces beside that work
  ContextKind cp_kind = ContextKind::Ring;
  int ulysses = 1;                // ring+ulysses: ranks of cp in one of the groups
  std::string schedule = "1f1b";  // of the pipeline: a name, or the path of a .csv
  int chunks = 1;                 // stages a rank, where the schedule leaves a choice
  std::string split = "even";     // layers of each stage: even, balanced, or a list
  bool operator==(const ParallelConfig&) const = default;
};

inline constexpr int64_t kMaxRanks = 1 << 20;
// Experts spread over ranks that are there already, so ep and etp do not count.
inline int world_size(const ParallelConfig& parallel) {
  return parallel.pp * parallel.dp * parallel.shard * parallel.cp * parallel.tp;
}
// Ranks that take different samples of a batch.
inline int data_ranks(const ParallelConfig& parallel) {
  return parallel.dp * parallel.shard;
}

struct PrecisionConfig {
  ComputeType compute = ComputeType::Fp32;
  // Whether the optimizer keeps an fp32 copy of narrow weights.
  MasterWeights master = MasterWeights::Fp32;
  ComputeType moments = ComputeType::Fp32;  // or Bf16
  ComputeType grads = ComputeType::Fp32;    // or that of compute; bf16 with fp8
  Fp8Recipe fp8_recipe = Fp8Recipe::Tensor;
  // Of the recipe Delayed: steps of its history, and powers of two above the largest value in it.
  int64_t fp8_amax_history_len = 1024, fp8_margin = 0;
  // Of fp16: a fixed scale of the loss, or 0 for a dynamic one and where it starts.
  double loss_scale = 0, initial_loss_scale = 65536;
  int64_t loss_scale_window = 1000;  // steps without overflow before it doubles
  int loss_scale_hysteresis = 2;     // overflows before it halves
  bool operator==(const PrecisionConfig&) const = default;
};

// The dtypes of a run.
NumberTypes number_types(const PrecisionConfig& precision);

struct MemoryConfig {
  LogitsPolicy logits = LogitsPolicy::Keep;  // Chunked recomputes them in backward
  Recompute recompute = Recompute::None;
  int64_t recompute_layers = 0;  // of each pipeline stage, from its first; 0: all
  Offload offload = Offload::None;
  bool offloads_optimizer() const {
    return offload == Offload::Optimizer || offload == Offload::Both;
  }
  bool offloads_activations() const {
    return offload == Offload::Activations || offload == Offload::Both;
  }
  std::string offload_dir;  // of the file behind host memory; "": the system's for temporary files
  double experts = 0;  // expert parallel: rows a rank has memory for, x balanced; 0: see the key
  bool operator==(const MemoryConfig&) const = default;
};

struct OptimConfig {
  OptimizerKind name = OptimizerKind::AdamW;
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0;           // sgd
  double clip = 1.0;             // global norm; 0 means no clipping
  bool post_validation = false;  // pipelines: step before the global norm is known
  int64_t warmup = 0;            // steps
  LrSchedule schedule = LrSchedule::Cosine;
  double min_lr = 0;               // where the schedule ends
  double wsd_decay = 0.2;          // wsd: the last share of the steps that decays
  double router_bias_rate = 1e-3;  // step of the bias of sigmoid routers
  bool operator==(const OptimConfig&) const = default;
};

struct TrainConfig {
  int64_t steps = 100;
  uint64_t seed = 0;
  int64_t eval_every = 0;    // steps; 0 means never
  int64_t eval_batches = 8;  // micro-batches of one evaluation
  int64_t log_every = 1;
  double max_hours = 0;  // then it saves and stops; 0 means no limit
  Reductions reductions = Reductions::Ordered;
  double z_loss = 0;  // weight of the square of the log-sum-exp in the loss
  // Weights of the routers' auxiliary losses: load balance, and the square of the log-sum-exp.
  double balance_loss = 0, router_z_loss = 0;
  BalanceScope balance_scope = BalanceScope::Micro;
  double capacity_factor = 0;  // of an expert, of its balanced share of a micro-batch; 0: dropless
  bool operator==(const TrainConfig&) const = default;
};

struct CheckpointConfig {
  std::string dir;    // "" means <run.out>/checkpoints
  int64_t every = 0;  // steps; 0 means only at the end
  int64_t keep = 2;
  bool operator==(const CheckpointConfig&) const = default;
};

struct RunConfig {
  RunDevice device = RunDevice::Cpu;
  Transport transport = Transport::Threads;
  int threads = 0;           // compute threads of a rank; 0 means the cores / ranks
  int64_t memory_limit = 0;  // bytes per rank; 0 means what the machine has
  std::string out = "out";
  bool tensorboard = true;
  std::string mpirun;          // more flags for mpirun
  bool trace = false;          // write trace.json into `out`
  bool graphs = true;          // steps on a GPU as CUDA graphs
  bool cudnn_backward = true;  // attention's backward on a GPU by cuDNN, whose bits vary
  double peak_flops = 0;       // of all ranks' machines together; 0 means measured
  bool operator==(const RunConfig&) const = default;
};

struct FaultConfig {
  double deadline = 600;  // seconds of every wait for a peer
  std::string inject;     // faults to make on purpose; "" means none
  bool operator==(const FaultConfig&) const = default;
};

struct Config {
  ModelConfig model;
  DataConfig data;
  BatchConfig batch;
  ParallelConfig parallel;
  PrecisionConfig precision;
  MemoryConfig memory;
  OptimConfig optim;
  TrainConfig train;
  CheckpointConfig checkpoint;
  RunConfig run;
  FaultConfig fault;
  bool operator==(const Config&) const = default;
};

}  // namespace sextant
