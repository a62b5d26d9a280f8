#include "config/check.h"

#include <algorithm>

#include "base/error.h"
#include "config/key_makers.h"

namespace sextant {
namespace {

void check_heads(const ModelConfig& model, const Settings& settings) {
  SXT_CHECK(model.heads % model.kv_heads == 0, Config, settings.where("model.kv_heads"),
            "model.kv_heads = ", model.kv_heads, " does not divide model.heads = ", model.heads);
  const int64_t width = model.heads * model.head_dim;
  SXT_CHECK(width <= kMaxSize, Config, settings.where("model.head_dim"),
            "model.heads x model.head_dim = ", width, ", at most ", kMaxSize);
  SXT_CHECK(model.head_dim % 2 == 0 && model.head_dim <= kWidestHead, Config,
            settings.where("model.head_dim"), "model.head_dim = ", model.head_dim,
            ": takes an even number up to ", kWidestHead);
  if (model.family == Family::Gpt2) {
    SXT_CHECK(model.kv_heads == model.heads, Config, settings.where("model.kv_heads"),
              "model.kv_heads = ", model.kv_heads, ": family gpt2 has one for each of its ",
              model.heads, " heads, family llama groups them");
    SXT_CHECK(width == model.hidden, Config, settings.where("model.head_dim"),
              "model.heads x model.head_dim = ", width,
              ": family gpt2 needs model.hidden = ", model.hidden);
    return;
  }
  const RopeScaling& rope = model.rope_scaling;
  SXT_CHECK(rope.low_freq_factor < rope.high_freq_factor, Config,
            settings.where("model.rope_low_freq_factor"),
            "model.rope_low_freq_factor = ", rope.low_freq_factor,
            " must be below model.rope_high_freq_factor = ", rope.high_freq_factor);
  SXT_CHECK(rope.beta_slow < rope.beta_fast, Config, settings.where("model.rope_beta_slow"),
            "model.rope_beta_slow = ", rope.beta_slow,
            " must be below model.rope_beta_fast = ", rope.beta_fast);
  SXT_CHECK(rope.factor == 1 || rope.type != RopeType::Yarn || model.rope_theta > 1, Config,
            settings.where("model.rope_theta"), "model.rope_theta = ", model.rope_theta,
            " with model.rope_type = yarn: takes a number above 1");
}

void check_latent_attention(const Config& config, const Settings& settings) {
  const ModelConfig& model = config.model;
  if (model.family != Family::DeepseekMoe) return;
  SXT_CHECK(model.kv_heads == model.heads, Config, settings.where("model.kv_heads"),
            "model.kv_heads = ", model.kv_heads, ": family deepseek-moe has one for each of its ",
            model.heads, " heads");
  SXT_CHECK(model.qk_rope_head_dim % 2 == 0 && model.qk_rope_head_dim < model.head_dim, Config,
            settings.where("model.qk_rope_head_dim"),
            "model.qk_rope_head_dim = ", model.qk_rope_head_dim,
            ": takes an even number below model.head_dim = ", model.head_dim);
  SXT_CHECK(model.v_head_dim <= model.head_dim, Config, settings.where("model.v_head_dim"),
            "model.v_head_dim = ", model.v_head_dim, ": at most model.head_dim = ", model.head_dim);
}

void check_load(const char* what, const Config& config, const Settings& settings) {
  SXT_CHECK(config.precision.grads == ComputeType::Fp32, Config, settings.where("precision.grads"),
            what, " needs precision.grads = fp32: the load of the experts is summed with the ",
            "gradients");
}

void check_balance_scope(const Config& config, const Settings& settings) {
  if (config.train.balance_scope != BalanceScope::Global) return;
  check_load("train.balance_scope = global", config, settings);
}

void check_sigmoid_router(const Config& config, const Settings& settings) {
  const ModelConfig& model = config.model;
  if (model.router != RouterKind::Sigmoid) return;
  const int64_t groups = model.router_groups, chosen = model.groups_per_token;
  SXT_CHECK(model.experts % groups == 0 && (groups == 1 || model.experts / groups > 1), Config,
            settings.where("model.router_groups"), "model.router_groups = ", groups,
            ": must divide model.experts = ", model.experts, " into groups of two or more");
  const int64_t needed = (model.experts_per_token * groups + model.experts - 1) / model.experts;
  SXT_CHECK(chosen >= needed && chosen <= groups, Config, settings.where("model.groups_per_token"),
            "model.groups_per_token = ", chosen, " of model.router_groups = ", groups, ": takes ",
            needed, " to ", groups, " for model.experts_per_token = ", model.experts_per_token);
  check_load("model.router = sigmoid", config, settings);
  SXT_CHECK(config.precision.compute == ComputeType::Fp32 ||
                config.precision.master == MasterWeights::Fp32,
            Config, settings.where("precision.master"),
            "model.router = sigmoid needs precision.master = fp32: the steps of its bias are ",
            "smaller than the last bit of a narrow type");
}

void check_experts(const Config& config, const Settings& settings) {
  const ModelConfig& model = config.model;
  if (!has_experts(model.family)) return;
  constexpr int64_t kMost = 1 << 16;
  SXT_CHECK(model.experts <= kMost, Config, settings.where("model.experts"),
            "model.experts = ", model.experts, ": at most ", kMost);
  SXT_CHECK(model.experts_per_token <= model.experts, Config,
            settings.where("model.experts_per_token"),
            "model.experts_per_token = ", model.experts_per_token,
            " of model.experts = ", model.experts, ": a token cannot choose more than there are");
  const int64_t rows = 2 * model.experts * model.expert_ffn;
  SXT_CHECK(rows <= kMaxSize && model.experts * model.hidden <= kMaxSize, Config,
            settings.where("model.experts"), "model.experts = ", model.experts,
            " of model.expert_ffn = ", model.expert_ffn, " and model.hidden = ", model.hidden,
            ": one layer has at most ", kMaxSize, " rows of weights");
  const int64_t shared = 2 * model.shared_experts * model.expert_ffn;
  SXT_CHECK(shared <= kMaxSize, Config, settings.where("model.shared_experts"),
            "model.shared_experts = ", model.shared_experts,
            " of model.expert_ffn = ", model.expert_ffn, ": at most ", kMaxSize,
            " rows of weights");
  SXT_CHECK(model.dense_layers < model.layers, Config, settings.where("model.dense_layers"),
            "model.dense_layers = ", model.dense_layers, " of model.layers = ", model.layers,
            ": at least one layer has experts");
  const double factor = config.train.capacity_factor;
  SXT_CHECK(factor == 0 || factor >= 1, Config, settings.where("train.capacity_factor"),
            "train.capacity_factor = ", factor,
            ": takes 1 or more, such as 1.25, or 0 for dropless routing");
  check_sigmoid_router(config, settings);
  check_balance_scope(config, settings);
}

// Everything below counts elements and bytes in 64 bits; these bounds keep that safe and lie far
// beyond any machine.
// What the embedding's backward sorts and sums in scratch memory of fixed size (ops/embedding.h).
constexpr int64_t kMostTokens = int64_t{1} << 21, kWidestRow = int64_t{1} << 19;

void check_embedding(const Config& config, const Settings& settings) {
  const ModelConfig& model = config.model;
  const int64_t cp = std::max<int64_t>(1, config.parallel.cp);
  const int64_t tokens = config.batch.micro * model.seq / cp;
  SXT_CHECK(tokens <= kMostTokens, Config, settings.where("batch.micro"),
            "batch.micro = ", config.batch.micro, " x model.seq = ", model.seq,
            cp > 1 ? concat(" / parallel.cp = ", cp) : "", " is ", tokens,
            " tokens at once on a rank: at most ", kMostTokens);
  SXT_CHECK(model.hidden <= kWidestRow, Config, settings.where("model.hidden"),
            "model.hidden = ", model.hidden, ": at most ", kWidestRow);
}

void check_magnitude(const Config& config, const Settings& settings) {
  const ModelConfig& model = config.model;
  const double layers = static_cast<double>(model.layers);
  const double hidden = static_cast<double>(model.hidden);
  const double ffn = static_cast<double>(model.ffn + model.experts * model.expert_ffn);
  const double width = static_cast<double>(model.heads * model.head_dim);
  const double vocab = static_cast<double>(model.vocab), seq = static_cast<double>(model.seq);
  const double parameters = layers * hidden * (4 * width + 3 * ffn) + hidden * (2 * vocab + seq);
  SXT_CHECK(parameters < 1e15, Config, "the model of model.layers = ", model.layers,
            ", model.hidden = ", model.hidden, ", model.ffn = ", model.ffn,
            ", model.vocab = ", model.vocab, " has about ", parameters,
            " parameters: at most 1e+15");
  const int64_t tokens =
      config.batch.micro * model.seq * std::max<int64_t>(1, model.experts_per_token);
  SXT_CHECK(tokens <= kMaxSize, Config, settings.where("batch.micro"),
            "batch.micro = ", config.batch.micro, " x model.seq = ", model.seq, " is ", tokens,
            " tokens at once: at most ", kMaxSize);
  const double activations =
      static_cast<double>(tokens) * (layers * (12 * hidden + 6 * width + 4 * ffn) + vocab);
  SXT_CHECK(activations < 1e17, Config, settings.where("batch.micro"),
            "batch.micro = ", config.batch.micro, " x model.seq = ", model.seq, " needs about ",
            activations, " activations at once: at most 1e+17");
}

// A mask of dropout is named by the index of a token in the batch, 31 bits; rows that fill up a
// micro-batch count on.
void check_dropout(const Config& config, const Settings& settings) {
  if (config.model.dropout == 0) return;
  const int64_t rows = config.batch.global + config.batch.micro;
  SXT_CHECK(rows <= kMaxSize / config.model.seq, Config, settings.where("model.dropout"),
            "model.dropout = ", config.model.dropout, " with batch.global = ", config.batch.global,
            " + batch.micro = ", config.batch.micro, " sequences of model.seq = ", config.model.seq,
            ": at most ", kMaxSize, " tokens");
}

// The program of a step lists every pass of every layer; training and its pre-flight make it first.
// It takes some hundred bytes for each pass of a rank, and a pre-flight has two ranks at a time.
void check_program(const Config& config, const Settings& settings) {
  const int64_t most = config.parallel.pp == 1 ? int64_t{3} << 18 : int64_t{1} << 20;
  const int64_t layers = 2 * config.model.layers + 2;  // attention and mlp, embedding and head
  SXT_CHECK(config.batch.accumulation <= most / layers, Config,
            settings.where("batch.accumulation"),
            "batch.accumulation = ", config.batch.accumulation,
            " micro-batches of model.layers = ", config.model.layers, ": at most ",
            std::max<int64_t>(1, most / layers), " micro-batches of so many layers are possible");
}

std::string_view name_of(ComputeType type) {
  switch (type) {
    case ComputeType::Fp32:
      return "fp32";
    case ComputeType::Bf16:
      return "bf16";
    case ComputeType::Fp16:
      return "fp16";
    case ComputeType::Fp8:
      return "fp8";
    case ComputeType::Fp64:
      return "fp64";
  }
  return "";
}

void check_precision(const Config& config, const Settings& settings) {
  const PrecisionConfig& precision = config.precision;
  const bool is_adamw = config.optim.name == OptimizerKind::AdamW;
  const auto compute = name_of(precision.compute);
  const bool fp8 = precision.compute == ComputeType::Fp8;
  const ComputeType narrow = fp8 ? ComputeType::Bf16 : precision.compute;
  SXT_CHECK(precision.grads == ComputeType::Fp32 || precision.grads == narrow, Config,
            settings.where("precision.grads"), "precision.grads = ", name_of(precision.grads),
            " with precision.compute = ", compute, ", must be fp32",
            narrow == ComputeType::Fp32 ? "" : concat(" or ", name_of(narrow)));
  SXT_CHECK(!fp8 || !has_experts(config.model.family) || config.run.device == RunDevice::Cpu,
            Config, settings.where("precision.compute"),
            "precision.compute = fp8 with a model.family with experts and run.device = cuda: ",
            "experts in fp8 run on run.device = cpu only; use bf16");
  SXT_CHECK(precision.master == MasterWeights::Fp32 || precision.compute == ComputeType::Bf16,
            Config, settings.where("precision.master"),
            "precision.master = none with precision.compute = ", compute,
            ": weights without a master are for precision.compute = bf16");
  SXT_CHECK(precision.master == MasterWeights::Fp32 || is_adamw, Config,
            settings.where("precision.master"),
            "precision.master = none with optim.name = sgd: only adamw rounds stochastically");
  SXT_CHECK(
      precision.compute != ComputeType::Fp16 || !config.optim.post_validation, Config,
      settings.where("optim.post_validation"),
      "optim.post_validation = true with precision.compute = fp16: an update before the norm ",
      "is known cannot skip an overflow; use bf16 or set it to false");
  SXT_CHECK(precision.moments == ComputeType::Fp32 || is_adamw, Config,
            settings.where("precision.moments"), "precision.moments = ", name_of(precision.moments),
            " with optim.name = sgd: only adamw rounds stochastically");
}

void check_recompute(const Config& config, const Settings& settings) {
  SXT_CHECK(config.memory.recompute_layers <= config.model.layers, Config,
            settings.where("memory.recompute_layers"),
            "memory.recompute_layers = ", config.memory.recompute_layers,
            " of model.layers = ", config.model.layers, ": at most that many, 0 is all");
}

void check_offload(const Config& config, const Settings& settings) {
  const MemoryConfig& memory = config.memory;
  if (memory.offload == Offload::None) return;
  const std::string where = settings.where("memory.offload");
  SXT_CHECK(
      !config.optim.post_validation, Config, where,
      "memory.offload with optim.post_validation = true, which keeps a copy of the optimizer ",
      "state on the device and discards forwards: set one of them to none or false");
  const ParallelConfig& parallel = config.parallel;
  SXT_CHECK(!memory.offloads_activations() || parallel.ep * parallel.etp == 1, Config, where,
            "memory.offload of activations with parallel.ep = ", parallel.ep,
            parallel.etp > 1 ? concat(", etp = ", parallel.etp) : "",
            ", where their sizes depend on the routing: memory.offload = optimizer works");
}

void check_data(const Config& config, const Settings& settings) {
  const DataConfig& data = config.data;
  const bool reads = data.kind == DataKind::Tokens || data.kind == DataKind::Text;
  SXT_CHECK(!reads || !data.path.empty() || !data.blend.empty(), Config,
            settings.where("data.kind"),
            "data.kind = ", data.kind == DataKind::Tokens ? "tokens" : "text",
            " needs data.path, a file, or data.blend");
  SXT_CHECK(data.path.empty() || data.blend.empty(), Config, settings.where("data.blend"),
            "data.blend beside data.path = ", data.path, ": set one of them");
  SXT_CHECK(!is_byte_text(data) || config.model.vocab >= 256, Config, settings.where("model.vocab"),
            "model.vocab = ", config.model.vocab,
            ": plain bytes need 256 or more, or set data.tokenizer");
  SXT_CHECK(config.train.eval_every == 0 || !data.eval_path.empty() || data.eval_fraction > 0,
            Config, settings.where("train.eval_every"),
            "train.eval_every = ", config.train.eval_every,
            " without held-out data: set data.eval_fraction above 0 or data.eval_path");
}

void check_schedule(const Config& config, const Settings& settings) {
  const OptimConfig& optim = config.optim;
  const int64_t steps = config.train.steps;
  SXT_CHECK(optim.min_lr <= optim.lr, Config, settings.where("optim.min_lr"),
            "optim.min_lr = ", optim.min_lr, " is above optim.lr = ", optim.lr);
  SXT_CHECK(optim.warmup <= steps, Config, settings.where("optim.warmup"),
            "optim.warmup = ", optim.warmup, " is more than train.steps = ", steps);
  if (optim.schedule != LrSchedule::Wsd) return;
  const double decay = optim.wsd_decay * static_cast<double>(steps);
  SXT_CHECK(static_cast<double>(optim.warmup) + decay < static_cast<double>(steps) + 0.5, Config,
            settings.where("optim.wsd_decay"), "optim.wsd_decay = ", optim.wsd_decay, " is ", decay,
            " steps, which with optim.warmup = ", optim.warmup,
            " is more than train.steps = ", steps);
}

}  // namespace

bool is_byte_text(const DataConfig& data) {
  return (data.kind == DataKind::Builtin || data.kind == DataKind::Text) &&
         (data.tokenizer.empty() || data.tokenizer == "bytes");
}

namespace {

void check_transport(const Config& config, const Settings& settings) {
  const bool on_gpu = config.run.device == RunDevice::Cuda;
  SXT_CHECK(!on_gpu || config.run.transport != Transport::Mpi, Config,
            settings.where("run.transport"),
            "run.device = cuda with run.transport = mpi: MPI moves ",
            "host memory; use nccl, or threads for ranks that share one GPU");
  SXT_CHECK(on_gpu || config.run.transport != Transport::Nccl, Config,
            settings.where("run.transport"),
            "run.transport = nccl needs run.device = cuda: on the ", "CPU use threads or mpi");
  SXT_CHECK(config.train.reductions != Reductions::Fast || config.run.transport == Transport::Nccl,
            Config, settings.where("train.reductions"), "train.reductions = fast needs ",
            "run.transport = nccl: other transports sum in rank order, use ordered");
}

}  // namespace

void check_config(const Config& config, const Settings& settings) {
  check_heads(config.model, settings);
  check_experts(config, settings);
  check_latent_attention(config, settings);
  check_magnitude(config, settings);
  check_embedding(config, settings);
  check_dropout(config, settings);
  check_program(config, settings);
  check_precision(config, settings);
  check_recompute(config, settings);
  check_offload(config, settings);
  check_data(config, settings);
  check_schedule(config, settings);
  SXT_CHECK(!config.optim.post_validation || config.parallel.pp > 1, Config,
            settings.where("optim.post_validation"), "optim.post_validation = true needs a ",
            "pipeline, parallel.pp above 1: without one no rank waits for the norm of others");
  check_transport(config, settings);
  SXT_CHECK(!config.run.out.empty(), Config, settings.where("run.out"),
            "run.out is empty: it takes a directory");
}

}  // namespace sextant
