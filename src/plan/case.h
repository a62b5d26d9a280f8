#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "config/config.h"
#include "plan/hardware.h"

namespace sextant {

// A model as the planner prices it: sizes only, with experts and latent attention.
struct ModelShape {
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  int64_t seq = 0;
  bool gated = true;  // SwiGLU: three matrices in the MLP, not two
  bool tied = false;  // the head shares the embedding
  bool dropout = false;
  bool learned_positions = false;
  bool head_norm = false;  // of every query and key head
  int64_t window = 0;      // so many tokens are attended to in each or every other layer; 0: all
  bool alternates = true;  // every other layer
  // Latent attention (MLA): ranks of the compressed query and key-value, rotary and value dims.
  int64_t q_rank = 0, kv_rank = 0, rope_dim = 0, value_dim = 0;
  // Experts; 0: dense. `shared_ffn` is the width of all shared experts together.
  int64_t experts = 0, experts_per_token = 0, expert_ffn = 0, shared_ffn = 0, dense_layers = 0;
  int64_t predicted_ahead = 0;  // multi-token prediction: layers, each with a head of its own
};

ModelShape shape_of(const ModelConfig& model, int64_t seq);

// (Query, key) pairs of one sequence in a layer, causal, the mean over layers.
double attention_pairs(const ModelShape& shape);

struct Parameters {
  double layer = 0;         // of an attention + MLP layer without experts
  double expert_layer = 0;  // of a layer with experts, all experts included
  double experts = 0;       // of which experts (routed)
  double embedding = 0, head = 0;
  double total = 0, active = 0;  // active: what one token uses, embedding not counted
};
Parameters count_parameters(const ModelShape& shape);

// FLOPs of one step that the model needs, recomputation and masked attention not counted.
double model_flops(const ModelShape& shape, double tokens);

enum class NumberFormat { Fp32, Bf16, Fp16, Fp8Tensor, Fp8Row, Mxfp8, Nvfp4 };
const char* name_of(NumberFormat format);

struct Numerics {
  NumberFormat format = NumberFormat::Bf16;  // of the linear layers
  bool master = true;                        // an fp32 copy of 16-bit weights
  double moment_bytes = 8;                   // of all moments of a parameter
  double grad_bytes = 4;                     // of an element, where gradients accumulate
  double reduce_bytes = 4;                   // on the wire
  bool fp8_gather = false;                   // ZeRO-3 gathers 8-bit weights
};

// Library: the fused attention that the GPU's vendor ships (cuDNN).
enum class AttentionKernel { Unfused, FusedSoftmax, Flash1, Flash2, Library };

// What the training program does well or badly; a published run says, or its time suggests.
struct Practice {
  AttentionKernel attention = AttentionKernel::Flash2;
  bool fused_norm = true;        // RMSNorm in one kernel
  bool grads_overlap = true;     // reduction of gradients beside backward
  bool sums_whole = false;       // ZeRO-1 sums all gradients on every rank, not only its shard
  bool sends_wait = false;       // messages between stages stand in the queue of the compute
  bool eager = false;            // each element-wise operation is a kernel of its own
  bool tp_overlap = false;       // collectives of tensor parallel in pieces beside GEMMs
  bool gathers_overlap = true;   // ZeRO-3 prefetches
  bool coalesced = true;         // ZeRO-3 gathers a layer at once; false: tensor by tensor
  bool each_micro = false;       // ZeRO-2 and 3 reduce, and ZeRO-3 gathers, for every micro-batch
  bool experts_overlap = false;  // all-to-all beside the compute of another micro-batch
  bool grouped = true;           // all experts of a rank in one GEMM kernel
  bool graphs = false;           // kernels are launched as captured graphs
  double imbalance = 1;          // rows of the fullest rank of ep against the mean
  double recomputed = 1;         // share of the layers that full recomputation applies to
  bool half_gemms = false;       // selective recomputation drops every other GEMM's output
  bool vocab_parallel = true;    // each rank of tp keeps its part of the logits; false: all of them
  double logit_bytes = 10;       // memory of a logit at the peak of the loss
  double logit_traffic = 24;     // bytes that the loss moves for it, forward and backward
  bool gathers_again = true;     // sequence parallel keeps shards of GEMM inputs; false: whole ones
  bool norm_copies = false;      // a norm kernel from outside keeps copies of its input
  bool only_layers = false;      // no embedding and no head: a layer measured alone
  // The program is `train`: its memory is that of own_memory.h, not of the published programs.
  bool own = false;
  bool chunked_logits = false;  // of `train`: made by columns, again in backward
  double expert_room = 2;       // of `train` with ep or etp: rows a rank has memory for, x balanced
};

enum class ScheduleKind : uint8_t {
  Gpipe,
  OneFOneB,
  Interleaved,
  LoopedBfs,
  ZbH1,
  ZbH2,
  InterleavedZb,
  ZbV,
  ZbAuto,
  VHalf,
  VMin,
  DualPipe,
  DualPipeV
};
inline const char* name_of(ScheduleKind kind) {
  return kSchedules[static_cast<size_t>(kind)];
}

const char* name_of(Offload offload);  // "activations"
bool is_v_shaped(ScheduleKind kind);
// Several stages a rank, as many as asked for.
bool takes_chunks(ScheduleKind kind);

// world = pp * dp * shard * cp * tp, ranks numbered with tp fastest.
struct Layout {
  int dp = 1, shard = 1, zero = 0;
  int tp = 1;
  bool sequence = false;
  int cp = 1;
  ContextKind cp_kind = ContextKind::Ring;
  int pp = 1;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int chunks = 1;
  int ep = 1, etp = 1;
  int64_t micro = 1;
  Recompute recompute = Recompute::None;
  Offload offload = Offload::None;  // what waits in the host's memory
  bool offloads_activations() const {
    return offload == Offload::Activations || offload == Offload::Both;
  }
  bool offloads_optimizer() const {
    return offload == Offload::Optimizer || offload == Offload::Both;
  }
  int64_t data_ranks() const { return int64_t{1} * dp * shard; }
  int64_t world() const { return data_ranks() * tp * cp * pp; }
  // Experts lie on etp * ep consecutive ranks of a stage; the others hold copies of them.
  int64_t expert_copies() const {
    return std::max<int64_t>(1, data_ranks() * cp * tp / (int64_t{1} * ep * etp));
  }
  // V-shaped schedules have two stages a rank, whatever `chunks` says.
  int64_t stages() const;
  friend bool operator==(const Layout&, const Layout&) = default;
};

// Layers of the first, of a middle (the one with most of them) and of the last pipeline rank.
struct StageLayers {
  double first = 0, middle = 0, last = 0;
};
// As a planner cuts them.
StageLayers stage_layers(int64_t layers, int64_t pp);

// One question: this model, so many sequences a step, in this layout, on these GPUs.
struct Case {
  Hardware hardware;
  ModelShape shape;
  Numerics numerics;
  Practice practice;
  Layout layout;
  int64_t global_batch = 0;
  StageLayers split = {};  // of the pipeline ranks, where somebody chose it; else nothing
  int64_t micros() const { return global_batch / (layout.data_ranks() * layout.micro); }
};

// The split that was chosen, or that of a planner.
StageLayers stage_layers(const Case& asked);

}  // namespace sextant
