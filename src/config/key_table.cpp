// The table of all settings, one function per section. A key that this build cannot honour does not
// appear, or refuses the values that it cannot honour.
#include <utility>

#include "config/key_makers.h"

namespace sextant {
namespace {

using Keys = std::vector<Key>;

constexpr IntRange kSize{1, kMaxSize};
constexpr IntRange kCount{0, kMaxCount};

bool is_moe(const Config& config) {
  return has_experts(config.model.family);
}

bool reads_files(const Config& config) {
  return config.data.kind == DataKind::Tokens || config.data.kind == DataKind::Text;
}

bool is_adamw(const Config& config) {
  return config.optim.name == OptimizerKind::AdamW;
}

void add_data(Keys& keys) {
  const std::string files = "data.kind = tokens or text";
  keys.push_back(choice_key<DataKind>("data.kind", SXT_FIELD(data.kind),
                                      {{"builtin", DataKind::Builtin},
                                       {"synthetic", DataKind::Synthetic},
                                       {"tokens", DataKind::Tokens},
                                       {"text", DataKind::Text}},
                                      "what to train on: the built-in corpus, random tokens, a "
                                      "token file or plain text and jsonl"));
  keys.push_back(only_when(files, reads_files,
                           falls_back_to("none", text_key("data.path", SXT_FIELD(data.path),
                                                          "a file, a pattern such as web/*.tokens "
                                                          "or a directory",
                                                          "the training data"))));
  keys.push_back(only_when(
      files, reads_files,
      falls_back_to("none", text_key("data.blend", SXT_FIELD(data.blend),
                                     "weights and paths, such as \"0.7 web/*.tokens, 0.3 code\"",
                                     "several sources in place of data.path; every 4096 samples "
                                     "have exactly these shares"))));
  keys.push_back(only_when(
      files, reads_files,
      falls_back_to("a share of data.path", text_key("data.eval_path", SXT_FIELD(data.eval_path),
                                                     "a file", "the held-out data"))));
  keys.push_back(falls_back_to(
      "that of the token files, or \"bytes\"",
      text_key("data.tokenizer", SXT_FIELD(data.tokenizer), "\"bytes\" or a tokenizer.json",
               "tokenizer of the text; token files that know theirs need "
               "none and refuse another")));
  keys.push_back(only_when(
      "data.kind = tokens",
      [](const Config& config) { return config.data.kind == DataKind::Tokens; },
      choice_key<TokenFormat>("data.format", SXT_FIELD(data.format),
                              {{"auto", TokenFormat::Auto},
                               {"sextant", TokenFormat::Sextant},
                               {"llm.c", TokenFormat::LlmC},
                               {"nanogpt", TokenFormat::NanoGpt},
                               {"megatron", TokenFormat::Megatron}},
                              "format of the token file; auto reads its header, nanogpt files have "
                              "none and must be named")));
  keys.push_back(only_when(
      "no data.eval_path", [](const Config& config) { return config.data.eval_path.empty(); },
      float_key("data.eval_fraction", SXT_FIELD(data.eval_fraction), {0, 0.9},
                "held-out fraction of the training data")));
  keys.push_back(bool_key("data.document_mask", SXT_FIELD(data.document_mask),
                          "tokens attend only within their own document"));
}

void add_batch(Keys& keys) {
  keys.push_back(falls_back_to("micro x accumulation x data ranks",
                               int_key("batch.global", SXT_FIELD(batch.global), kSize,
                                       "sequences per optimizer step, over all ranks")));
  keys.push_back(falls_back_to(
      "the largest divisor of a data rank's share up to 8; for a pipeline up to share / (2 pp)",
      int_key("batch.micro", SXT_FIELD(batch.micro), kSize,
              "sequences of one micro-batch on one rank; give any two of the three")));
  keys.push_back(falls_back_to(
      "global / (micro x data ranks), rounded up; without global 1, or 2 pp for a pipeline",
      int_key("batch.accumulation", SXT_FIELD(batch.accumulation), kSize,
              "gradient accumulation: micro-batches per step of a rank; times (2 model.layers + 2) "
              "at most 1048576")));
}

void add_precision_and_memory(Keys& keys) {
  keys.push_back(choice_key<ComputeType>("precision.compute", SXT_FIELD(precision.compute),
                                         {{"fp32", ComputeType::Fp32},
                                          {"bf16", ComputeType::Bf16},
                                          {"fp16", ComputeType::Fp16},
                                          {"fp8", ComputeType::Fp8}},
                                         "type of weights and activations in the layers; sums, "
                                         "norms, softmax and loss are always fp32; fp8: of the "
                                         "linear layers, all else is bf16"));
  keys.push_back(choice_key<MasterWeights>(
      "precision.master", SXT_FIELD(precision.master),
      {{"fp32", MasterWeights::Fp32}, {"none", MasterWeights::None}},
      "master weights of a narrow compute type; none: the optimizer updates the narrow weights "
      "themselves, with stochastic rounding"));
  keys.push_back(choice_key<ComputeType>("precision.moments", SXT_FIELD(precision.moments),
                                         {{"fp32", ComputeType::Fp32}, {"bf16", ComputeType::Bf16}},
                                         "type of Adam's moments; bf16 is rounded stochastically"));
  keys.push_back(choice_key<ComputeType>(
      "precision.grads", SXT_FIELD(precision.grads),
      {{"fp32", ComputeType::Fp32}, {"bf16", ComputeType::Bf16}, {"fp16", ComputeType::Fp16}},
      "type in which gradients are accumulated and reduced: fp32 or that of precision.compute, "
      "with fp8 bf16"));
  keys.push_back(only_when(
      "precision.compute = fp8",
      [](const Config& c) { return c.precision.compute == ComputeType::Fp8; },
      choice_key<Fp8Recipe>("precision.fp8_recipe", SXT_FIELD(precision.fp8_recipe),
                            {{"tensor", Fp8Recipe::Tensor},
                             {"delayed", Fp8Recipe::Delayed},
                             {"block", Fp8Recipe::Block}},
                            "scales of fp8; tensor: one per tensor from its current largest value; "
                            "delayed: from those of earlier steps; both E4M3 forward, E5M2 "
                            "gradients; block: per 1 x 128 tile, of weights per 128 x 128, E4M3")));
  const auto is_delayed = [](const Config& c) {
    return c.precision.compute == ComputeType::Fp8 && c.precision.fp8_recipe == Fp8Recipe::Delayed;
  };
  keys.push_back(
      only_when("precision.fp8_recipe = delayed", is_delayed,
                int_key("precision.fp8_amax_history_len", SXT_FIELD(precision.fp8_amax_history_len),
                        {1, 65536}, "steps whose largest values count for the scale of a tensor")));
  keys.push_back(only_when(
      "precision.fp8_recipe = delayed", is_delayed,
      int_key("precision.fp8_margin", SXT_FIELD(precision.fp8_margin), {0, 8},
              "the scale leaves 2^margin between the largest value and the largest fp8 number")));
  const std::string fp16 = "precision.compute = fp16";
  const auto is_fp16 = [](const Config& c) { return c.precision.compute == ComputeType::Fp16; };
  const auto is_dynamic = [=](const Config& c) {
    return is_fp16(c) && c.precision.loss_scale == 0;
  };
  keys.push_back(only_when(fp16, is_fp16,
                           float_key("precision.loss_scale", SXT_FIELD(precision.loss_scale),
                                     {0, 0x1p60}, "factor of the loss; 0: dynamic loss scaling")));
  keys.push_back(
      only_when("precision.loss_scale = 0", is_dynamic,
                float_key("precision.initial_loss_scale", SXT_FIELD(precision.initial_loss_scale),
                          {1, 0x1p60}, "where the dynamic loss scale starts")));
  keys.push_back(only_when(
      "precision.loss_scale = 0", is_dynamic,
      int_key("precision.loss_scale_window", SXT_FIELD(precision.loss_scale_window), {1, kMaxCount},
              "steps without overflow after which the loss scale doubles")));
  keys.push_back(only_when(
      "precision.loss_scale = 0", is_dynamic,
      int_key("precision.loss_scale_hysteresis", SXT_FIELD(precision.loss_scale_hysteresis),
              {1, 1000}, "overflows after which the loss scale halves")));
  keys.push_back(choice_key<LogitsPolicy>(
      "memory.logits", SXT_FIELD(memory.logits),
      {{"keep", LogitsPolicy::Keep}, {"chunked", LogitsPolicy::Chunked}},
      "keep stores all logits until backward; chunked recomputes them there, in chunks"));
  keys.push_back(choice_key<Recompute>(
      "memory.recompute", SXT_FIELD(memory.recompute),
      {{name_of(Recompute::None), Recompute::None},
       {name_of(Recompute::Cheap), Recompute::Cheap},
       {name_of(Recompute::Selective), Recompute::Selective},
       {name_of(Recompute::Full), Recompute::Full}},
      "activation recomputation in backward: cheap recomputes norm outputs and the product of "
      "SwiGLU, selective the attention core, full each block from its input"));
  keys.push_back(only_when(
      "a memory.recompute other than none",
      [](const Config& config) { return config.memory.recompute != Recompute::None; },
      falls_back_to("all",
                    int_key("memory.recompute_layers", SXT_FIELD(memory.recompute_layers), kCount,
                            "transformer layers of each pipeline stage that are recomputed, "
                            "from its first; 0 is all"))));
  keys.push_back(choice_key<Offload>(
      "memory.offload", SXT_FIELD(memory.offload),
      {{"none", Offload::None},
       {"optimizer", Offload::Optimizer},
       {"activations", Offload::Activations},
       {"both", Offload::Both}},
      "what is kept in host memory and copied when it is needed: optimizer is master weights and "
      "moments, activations what the layers of blocks keep from forward to backward"));
  keys.push_back(only_when(
      "a memory.offload other than none",
      [](const Config& config) { return config.memory.offload != Offload::None; },
      falls_back_to("the system's directory for temporary files",
                    text_key("memory.offload_dir", SXT_FIELD(memory.offload_dir), "a directory",
                             "where the file behind host memory is made; it has no name"))));
  keys.push_back(only_when(
      "parallel.ep above 1", [](const Config& config) { return config.parallel.ep > 1; },
      falls_back_to("the worst case if it fits, else 2",
                    float_key("memory.experts", SXT_FIELD(memory.experts), {0, 1e6},
                              "tokens for which a rank of ep has memory, as a multiple of those "
                              "under balanced routing; a step that needs more ends the run; 0 is "
                              "the default"))));
}

void add_optim(Keys& keys) {
  const std::string adamw = "optim.name = adamw";
  keys.push_back(choice_key<OptimizerKind>(
      "optim.name", SXT_FIELD(optim.name),
      {{"adamw", OptimizerKind::AdamW}, {"sgd", OptimizerKind::Sgd}}, "the optimizer"));
  keys.push_back(
      float_key("optim.lr", SXT_FIELD(optim.lr), {0, 1000}, "learning rate after the warm-up"));
  keys.push_back(only_when(adamw, is_adamw,
                           float_key("optim.beta1", SXT_FIELD(optim.beta1), {0, 1, High::Excluded},
                                     "decay rate of the first moment")));
  keys.push_back(only_when(adamw, is_adamw,
                           float_key("optim.beta2", SXT_FIELD(optim.beta2), {0, 1, High::Excluded},
                                     "decay rate of the second moment")));
  keys.push_back(only_when(adamw, is_adamw,
                           float_key("optim.eps", SXT_FIELD(optim.eps), {1e-30, 1},
                                     "added to the root of the second moment")));
  keys.push_back(float_key("optim.weight_decay", SXT_FIELD(optim.weight_decay), {0, 1000},
                           "decoupled weight decay of matrices; norms and biases have none"));
  keys.push_back(only_when(
      "optim.name = sgd", [](const Config& config) { return !is_adamw(config); },
      float_key("optim.momentum", SXT_FIELD(optim.momentum), {0, 1, High::Excluded},
                "momentum of SGD")));
  keys.push_back(float_key("optim.clip", SXT_FIELD(optim.clip), {0, 1e30},
                           "gradient clipping: largest global norm; 0 is no limit"));
  keys.push_back(bool_key(
      "optim.post_validation", SXT_FIELD(optim.post_validation),
      "each pipeline rank updates its weights before the global norm is known and undoes "
      "the update if it should have been clipped: the same bits without a barrier at the "
      "end of a step, at the cost of a copy of weights and moments; needs parallel.pp above 1"));
  keys.push_back(int_key("optim.warmup", SXT_FIELD(optim.warmup), kCount,
                         "warm-up steps, in which lr rises from 0"));
  keys.push_back(
      choice_key<LrSchedule>("optim.schedule", SXT_FIELD(optim.schedule),
                             {{"constant", LrSchedule::Constant},
                              {"linear", LrSchedule::Linear},
                              {"cosine", LrSchedule::Cosine},
                              {"wsd", LrSchedule::Wsd}},
                             "decay of lr after the warm-up; wsd is warm-up, stable, decay"));
  keys.push_back(only_when(
      "an optim.schedule other than constant",
      [](const Config& config) { return config.optim.schedule != LrSchedule::Constant; },
      float_key("optim.min_lr", SXT_FIELD(optim.min_lr), {0, 1000}, "lr of the last step")));
  keys.push_back(only_when(
      "optim.schedule = wsd",
      [](const Config& config) { return config.optim.schedule == LrSchedule::Wsd; },
      float_key("optim.wsd_decay", SXT_FIELD(optim.wsd_decay), {0, 1},
                "fraction of the steps in which lr decays, at the end")));
  keys.push_back(only_when(
      "model.router = sigmoid",
      [](const Config& config) {
        return is_moe(config) && config.model.router == RouterKind::Sigmoid;
      },
      float_key("optim.router_bias_rate", SXT_FIELD(optim.router_bias_rate), {0, 1},
                "step of the router's bias per update, against the sign of an expert's load "
                "error")));
}

void add_train(Keys& keys) {
  keys.push_back(
      int_key("train.steps", SXT_FIELD(train.steps), {1, kMaxCount}, "optimizer steps of the run"));
  keys.push_back(int_key("train.seed", SXT_FIELD(train.seed), {0, INT64_MAX},
                         "random seed of weights, data order and dropout"));
  keys.push_back(int_key("train.eval_every", SXT_FIELD(train.eval_every), kCount,
                         "steps between evaluations on held-out data; 0 is never"));
  keys.push_back(int_key("train.eval_batches", SXT_FIELD(train.eval_batches), {1, kMaxCount},
                         "micro-batches of one evaluation"));
  keys.push_back(int_key("train.log_every", SXT_FIELD(train.log_every), {1, kMaxCount},
                         "steps between two log lines"));
  keys.push_back(
      falls_back_to("no limit", float_key("train.max_hours", SXT_FIELD(train.max_hours), {0, 1e6},
                                          "hours after which a run saves a checkpoint and exits "
                                          "with code 6; 0: no limit")));
  keys.push_back(float_key("train.z_loss", SXT_FIELD(train.z_loss), {0, 1},
                           "z-loss coefficient: weight of the squared log-sum-exp of the logits in "
                           "the training loss; not in evaluations"));
  const std::string experts = "a model.family with experts";
  keys.push_back(
      only_when(experts, is_moe,
                float_key("train.balance_loss", SXT_FIELD(train.balance_loss), {0, 1000},
                          "coefficient of the routers' load-balance loss, of each layer")));
  keys.push_back(only_when(
      "train.balance_loss",
      [](const Config& config) { return is_moe(config) && config.train.balance_loss > 0; },
      choice_key<BalanceScope>("train.balance_scope", SXT_FIELD(train.balance_scope),
                               {{"sequence", BalanceScope::Sequence},
                                {"micro", BalanceScope::Micro},
                                {"global", BalanceScope::Global}},
                               "tokens over which the load-balance loss is taken: each sequence, "
                               "each micro-batch, or the load of the last step's global batch")));
  keys.push_back(only_when(
      experts, is_moe,
      float_key("train.router_z_loss", SXT_FIELD(train.router_z_loss), {0, 1000},
                "coefficient of the routers' z-loss, the squared log-sum-exp of their logits")));
  keys.push_back(only_when(
      experts, is_moe,
      float_key("train.capacity_factor", SXT_FIELD(train.capacity_factor), {0, 1000},
                "most tokens of an expert in a micro-batch, as a multiple of its balanced share, 1 "
                "or more; later tokens are dropped by it; 0 is dropless")));
  const std::string ordered = "this build sums in rank order: use ordered, or fast with NCCL";
  keys.push_back(choice_key<Reductions>("train.reductions", SXT_FIELD(train.reductions),
                                        {{"ordered", Reductions::Ordered},
                                         {"fast", Reductions::Fast},
                                         {"exact", Reductions::Exact, ordered}},
                                        "order of reductions over ranks: ordered adds in rank "
                                        "order, the same bits on every run and transport; fast, "
                                        "with run.transport = nccl, as NCCL does"));
}

void add_checkpoint(Keys& keys) {
  keys.push_back(
      falls_back_to("run.out/checkpoints", text_key("checkpoint.dir", SXT_FIELD(checkpoint.dir),
                                                    "a directory", "where checkpoints go")));
  keys.push_back(int_key("checkpoint.every", SXT_FIELD(checkpoint.every), kCount,
                         "steps between checkpoints; 0 saves only at the end"));
  keys.push_back(int_key("checkpoint.keep", SXT_FIELD(checkpoint.keep), {1, kMaxCount},
                         "newest checkpoints to keep"));
}

void add_run(Keys& keys) {
  keys.push_back(choice_key<RunDevice>(
      "run.device", SXT_FIELD(run.device), {{"cpu", RunDevice::Cpu}, {"cuda", RunDevice::Cuda}},
      "device to run on: this machine's processor, or NVIDIA GPUs: one that all ranks share, or "
      "with run.transport = nccl one for each rank"));
  keys.push_back(choice_key<Transport>(
      "run.transport", SXT_FIELD(run.transport),
      {{"threads", Transport::Threads}, {"mpi", Transport::Mpi}, {"nccl", Transport::Nccl}},
      "communication backend: threads of this process; Open MPI processes, also on several hosts; "
      "or NCCL between GPUs: threads of this process with a GPU each, or the processes of mpirun, "
      "srun or torchrun"));
  keys.push_back(only_when(
      "run.transport = mpi",
      [](const Config& config) { return config.run.transport == Transport::Mpi; },
      falls_back_to("none", text_key("run.mpirun", SXT_FIELD(run.mpirun), "flags",
                                     "additional flags for the mpirun that train starts"))));
  keys.push_back(
      int_key("run.threads", SXT_FIELD(run.threads), {0, 1024},
              "compute threads of a rank on the CPU; 0 divides the cores among the ranks"));
  keys.push_back(bytes_key(
      "run.memory_limit", SXT_FIELD(run.memory_limit),
      "memory that a rank may use; 0 is its share of the machine's, or of what is free on "
      "the GPU"));
  keys.push_back(text_key("run.out", SXT_FIELD(run.out), "a directory",
                          "where metrics and logs go; made if absent"));
  keys.push_back(bool_key("run.tensorboard", SXT_FIELD(run.tensorboard),
                          "write TensorBoard events beside the metrics"));
  keys.push_back(bool_key("run.trace", SXT_FIELD(run.trace),
                          "write a timeline of all ranks, trace.json, beside the metrics"));
  keys.push_back(only_when(
      "run.device = cuda",
      [](const Config& config) { return config.run.device == RunDevice::Cuda; },
      bool_key("run.graphs", SXT_FIELD(run.graphs),
               "record a step as a CUDA graph and launch that, where a rank has its GPU alone")));
  keys.push_back(only_when(
      "run.device = cuda",
      [](const Config& config) { return config.run.device == RunDevice::Cuda; },
      bool_key("run.cudnn_backward", SXT_FIELD(run.cudnn_backward),
               "attention's backward by cuDNN, in a build that has it, in bf16 and fp16: the last "
               "bits of its gradients vary from run to run; false is slower and repeats them")));
  keys.push_back(falls_back_to("measured at the start; of known GPUs the data sheet's",
                               float_key("run.peak_flops", SXT_FIELD(run.peak_flops), {0, 1e21},
                                         "peak dense FLOP/s of all ranks together, for MFU")));
}

void add_fault(Keys& keys) {
  keys.push_back(float_key("fault.deadline", SXT_FIELD(fault.deadline), {0.001, 1e9},
                           "timeout in seconds of a rank that waits for its peers"));
  keys.push_back(falls_back_to("none", text_key("fault.inject", SXT_FIELD(fault.inject), "faults",
                                                "faults to inject, for tests")));
}

}  // namespace

const std::vector<Key>& config_keys() {
  static const Keys table = [] {
    Keys keys;
    add_model_keys(keys);
    add_data(keys);
    add_batch(keys);
    add_parallel_keys(keys);
    add_precision_and_memory(keys);
    add_optim(keys);
    add_train(keys);
    add_checkpoint(keys);
    add_run(keys);
    add_fault(keys);
    return keys;
  }();
  return table;
}

}  // namespace sextant
