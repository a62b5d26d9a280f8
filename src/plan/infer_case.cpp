// Turns a published run into a question. Columns that are empty are filled by what programs of that
// time did; free text is searched for keywords.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/parse.h"
#include "plan/memory.h"
#include "plan/run_table.h"
#include "plan/step_time.h"

namespace sextant {
namespace {

std::string lowered(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

bool has(const std::string& text, std::string_view word) {
  return lowered(text).find(word) != std::string::npos;
}

// The whole number after `word`, or the one before it for words that begin with '-' or ' '.
std::optional<double> number_after(const std::string& text, std::string_view word) {
  const size_t at = lowered(text).find(word);
  if (at == std::string::npos) return {};
  size_t begin = at + word.size(), end = begin;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
  return parse_double(text.substr(begin, end - begin));
}

std::optional<double> number_before(const std::string& text, std::string_view word) {
  const size_t at = lowered(text).find(word);
  if (at == std::string::npos) return {};
  size_t begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1]))) --begin;
  return parse_double(text.substr(begin, at - begin));
}

constexpr double kExpertsOverlapSince = 26.06;  // year and month of a release

class Reader {
 public:
  Reader(Storage& storage, const PublishedRun& run, const Constants& constants)
      : storage_(storage), run_(run), constants_(constants) {}

  InferredCase read() {
    hardware();
    model();
    practice();
    numerics();
    layout();
    state_sharding();
    memory_policy();
    micro_batch();
    return std::move(out_);
  }

 private:
  template <class... Parts>
  void assume(const Parts&... parts) {
    out_.assumed.push_back(concat(parts...));
  }

  // A count of at least 1 from a column, or a default.
  int64_t count(const std::optional<double>& value, const char* name, double otherwise) {
    if (value && *value >= 1 && *value <= 2147483647.0) return static_cast<int64_t>(*value);
    assume(name, ": not stated, taken for ", static_cast<int64_t>(otherwise));
    return static_cast<int64_t>(otherwise);
  }

  void hardware() {
    try {
      out_.asked.hardware = find_hardware(storage_, run_.gpu);
      for (const std::string& text : out_.asked.hardware.assumed) assume(text);
    } catch (const Error&) {
      out_.asked.hardware = find_hardware(storage_, "H100");
      assume("gpu: '", run_.gpu, "' is not known, taken for an H100");
    }
  }

  bool recent() const { return out_.asked.hardware.generation >= GpuGeneration::Hopper; }

  void model() {
    ModelShape& s = out_.asked.shape;
    s.gated = run_.mlp.empty() ? true : run_.mlp != "gelu";
    if (!run_.layers || !run_.hidden) return unknown_model();
    s.layers = count(run_.layers, "layers", 32);
    s.hidden = count(run_.hidden, "hidden", 4096);
    s.heads = count(run_.heads, "heads", std::max(1.0, static_cast<double>(s.hidden) / 128));
    s.head_dim = run_.head_dim ? count(run_.head_dim, "head_dim", 128)
                               : std::max<int64_t>(1, s.hidden / s.heads);
    s.value_dim = s.head_dim;
    s.kv_heads = s.heads;
    if (run_.kv_heads.starts_with("MLA")) {
      latent_attention();
    } else if (const std::optional<double> kv = parse_double(run_.kv_heads); kv && *kv >= 1) {
      s.kv_heads = static_cast<int64_t>(*kv);
    }
    s.ffn = run_.ffn ? count(run_.ffn, "ffn", 1) : s.gated ? s.hidden * 8 / 3 : s.hidden * 4;
    s.seq = count(run_.seq, "seq", 4096);
    s.vocab = count(run_.vocab, "vocab", s.gated ? 128256 : 51200);
    s.learned_positions = !s.gated;
    s.tied = !s.gated || has(run_.notes, "tied embeddings");
    if (run_.experts && *run_.experts > 1) {
      s.experts = count(run_.experts, "moe_experts", 8);
      s.experts_per_token = count(run_.topk, "moe_topk", 2);
      s.expert_ffn = count(run_.expert_ffn, "moe_ffn", static_cast<double>(s.ffn));
      s.shared_ffn = static_cast<int64_t>(run_.shared_ffn.value_or(0));
      s.dense_layers = std::min(s.layers, static_cast<int64_t>(run_.dense_layers.value_or(0)));
    }
    if (const auto window = number_before(run_.notes, "-token sliding window"))
      s.window = static_cast<int64_t>(*window);
    if (has(run_.notes, "w/ mtp")) s.predicted_ahead = 1;
    if (has(run_.model, "one layer")) {
      s.layers = 1;
      out_.asked.practice.only_layers = true;
    }
  }

  // MLA(q_lora1536,kv_lora512,qk128+64rope,v128)
  void latent_attention() {
    ModelShape& s = out_.asked.shape;
    s.q_rank = static_cast<int64_t>(number_after(run_.kv_heads, "q_lora").value_or(1536));
    s.kv_rank = static_cast<int64_t>(number_after(run_.kv_heads, "kv_lora").value_or(512));
    s.head_dim = static_cast<int64_t>(number_after(run_.kv_heads, "qk").value_or(128));
    s.rope_dim = static_cast<int64_t>(number_before(run_.kv_heads, "rope").value_or(64));
    s.value_dim = static_cast<int64_t>(number_after(run_.kv_heads, ",v").value_or(128));
  }

  // Sizes from the number of parameters alone: P = 12 L h^2 with h = 128 L.
  void unknown_model() {
    double billions = run_.params_b.value_or(0);
    if (billions <= 0) billions = number_before(run_.model, "b").value_or(0);
    if (!(billions > 0 && billions < 1e5)) billions = 30;
    ModelShape& s = out_.asked.shape;
    s.layers = std::max<int64_t>(2, std::llround(std::cbrt(billions * 1e9 / (12.0 * 128 * 128))));
    s.hidden = s.layers * 128;
    s.heads = s.kv_heads = s.layers;
    s.head_dim = s.value_dim = 128;
    s.ffn = s.hidden * 8 / 3;
    s.vocab = 128256;
    s.seq = count(run_.seq, "seq", 4096);
    assume("model: sizes are not stated, taken for a dense model of ", billions, "B parameters");
  }

  void practice() {
    Practice& p = out_.asked.practice;
    const std::string kernel = lowered(run_.kernel);
    const bool gated = out_.asked.shape.gated;
    if (kernel.starts_with("torch")) {
      p.attention = AttentionKernel::Unfused;
    } else if (kernel.starts_with("fused")) {
      p.attention = AttentionKernel::FusedSoftmax;
    } else if (has(kernel, "flash")) {
      p.attention = has(kernel, "v1") || kernel == "flash_attention" ? AttentionKernel::Flash1
                                                                     : AttentionKernel::Flash2;
    } else if (!kernel.empty()) {
      p.attention = AttentionKernel::Flash2;  // compiled or eager programs of PyTorch
    } else if (run_.flash.value_or(-1) == 0 || (!run_.flash && !recent() && !gated)) {
      p.attention = AttentionKernel::FusedSoftmax;
      assume("kernel: not stated, fused softmax without FlashAttention");
    } else {
      p.attention = AttentionKernel::Library;
      assume("kernel: not stated, fused attention of the GPU's library");
    }
    out_.asked.shape.dropout = !gated && p.attention < AttentionKernel::Flash1;
    // Programs built on PyTorch's own operators have no fused RMSNorm unless they say so.
    p.fused_norm = !gated || kernel.empty() || has(kernel, "rms") || has(kernel, "compile");
    // Programs of Hopper's time that use the vendor's kernels overlap what they can.
    p.tp_overlap = has(kernel, "asynctp") || (recent() && kernel.empty());
    p.grads_overlap = recent();
    if (has(run_.notes, "overlap off")) p.tp_overlap = p.grads_overlap = false;
    if (has(run_.notes, "no overlap of gradient")) p.grads_overlap = false;
    p.graphs = has(run_.notes, "cuda-graph");
    if (has(run_.notes, "deepspeed")) p.coalesced = p.gathers_overlap = false;
    if (has(kernel, "compile") || has(kernel, "eager")) {
      p.logit_bytes = 14;  // PyTorch's loss: 16-bit and fp32 logits, gradients of both
      p.logit_traffic = has(kernel, "compile") ? 28 : 40;
    } else if (gated && !kernel.empty()) {
      p.vocab_parallel = false;  // the logits are gathered, and each step of the loss copies them
      p.gathers_again = false;
      p.sums_whole = p.sends_wait = p.eager = true;
      p.norm_copies = p.fused_norm;
      p.logit_bytes = run_.tp.value_or(1) > 1 ? 21 : 17;
      p.logit_traffic = 48;
    }
    if (!gated && has(kernel, "flash")) {
      p.logit_bytes = 4;  // the loss that comes with FlashAttention works in place
      p.logit_traffic = 24;
    }
    p.half_gemms = has(run_.recompute, "op");
  }

  void numerics() {
    Numerics& n = out_.asked.numerics;
    const std::string text = lowered(run_.precision + " " + run_.compute);
    if (has(text, "nvfp4")) {
      n.format = NumberFormat::Nvfp4;
    } else if (has(text, "mxfp8") || has(text, "fp8-mx")) {
      n.format = NumberFormat::Mxfp8;
    } else if (has(text, "rowwise")) {
      n.format = NumberFormat::Fp8Row;
    } else if (has(text, "fp8")) {
      n.format = NumberFormat::Fp8Tensor;
    } else if (has(text, "fp16") && !has(text, "bf16")) {
      n.format = NumberFormat::Fp16;
    } else if (has(text, "fp32") && !has(text, "bf16")) {
      n.format = NumberFormat::Fp32;
    } else {
      n.format = NumberFormat::Bf16;
      if (!has(text, "bf16")) assume("precision: not stated, taken for bf16");
    }
    n.fp8_gather = has(text, "fp8 all-gather");
    n.grad_bytes = n.reduce_bytes = recent() ? 4 : 2;
    if (has(text, "pure")) n.reduce_bytes = 2;
    if (out_.asked.practice.sums_whole) n.reduce_bytes = 4;
  }

  void layout() {
    Layout& l = out_.asked.layout;
    const int64_t gpus = count(run_.gpus, "gpus", 8);
    l.tp = static_cast<int>(count(run_.tp, "tp", std::min<int64_t>(8, gpus)));
    l.cp = static_cast<int>(count(run_.cp, "cp", 1));
    l.pp = static_cast<int>(count(run_.pp, "pp", 1));
    l.sequence = run_.sp.value_or(recent() && l.tp > 1) == 1 && l.tp > 1;
    l.ep = static_cast<int>(run_.ep.value_or(1) >= 1 ? run_.ep.value_or(1) : 1);
    l.etp = 1;
    if (out_.asked.shape.experts == 0) l.ep = 1;
    const double per_replica = static_cast<double>(l.tp) * l.cp * l.pp;
    const double ranks = std::max(1.0, static_cast<double>(gpus) / per_replica);
    l.shard = static_cast<int>(run_.dp && *run_.dp >= 1 ? *run_.dp : ranks);
    l.cp_kind = has(run_.notes, "all-to-all") ? ContextKind::Ulysses
                : recent()                    ? ContextKind::AllGather
                                              : ContextKind::Ring;
    out_.asked.global_batch = count(run_.gbs, "gbs", static_cast<double>(l.shard));
    schedule();
    if (out_.asked.practice.eager && l.pp > 1) out_.asked.split = even_items(l.pp);
    // All-to-all beside compute came in 2026, with kernels for blocks of 8 bits: the same layouts
    // take 0.64 to 0.77 of their time from the release before on. Experts whose fp8 has one scale
    // per tensor run one after another.
    const NumberFormat format = out_.asked.numerics.format;
    const bool blocks = format == NumberFormat::Mxfp8 || format == NumberFormat::Nvfp4;
    const bool late =
        blocks && parse_double(run_.release.substr(0, 5)).value_or(0) >= kExpertsOverlapSince;
    out_.asked.practice.grouped = format != NumberFormat::Fp8Tensor;
    // The micro-batch beside comes from another chunk of the rank, or there is no pipeline.
    out_.asked.practice.experts_overlap =
        recent() && ((late && (l.pp == 1 || l.chunks > 1)) ||
                     (l.ep > out_.asked.hardware.domain && l.chunks > 1));
  }

  // A list of the embedding, the layers, a norm and the head, cut into runs of equal length, of
  // which the first may be one longer.
  StageLayers even_items(int64_t pp) const {
    const int64_t items = out_.asked.shape.layers + 3, more = items % pp;
    const double each = static_cast<double>(items / pp);
    const double first = each + (more > 0) - 1;
    return {first, pp > 2 ? each + (more > 1) : first, each - 2};
  }

  void schedule() {
    Layout& l = out_.asked.layout;
    l.schedule = ScheduleKind::OneFOneB;
    for (size_t i = 0; i < std::size(kSchedules); ++i)
      if (run_.schedule == kSchedules[i]) l.schedule = static_cast<ScheduleKind>(i);
    if (l.pp == 1) return;
    const int64_t each = std::max<int64_t>(
        1, static_cast<int64_t>(stage_layers(out_.asked.shape.layers, l.pp).middle));
    std::optional<double> chunks = parse_double(run_.vpp);
    if (run_.vpp.starts_with("max")) chunks = static_cast<double>(each);
    if (chunks && *chunks > 1 && run_.schedule != "looped-bfs")
      l.schedule = ScheduleKind::Interleaved;
    if (l.schedule == ScheduleKind::Interleaved) {
      if (!chunks || *chunks < 1) {
        chunks = each % 2 == 0 ? 2 : each % 3 == 0 ? 3 : each > 1 ? 2 : 1;
        assume("vpp: not stated, taken for ", *chunks);
      }
      l.chunks = static_cast<int>(std::min<double>(*chunks, static_cast<double>(each)));
      if (l.chunks <= 1) l.schedule = ScheduleKind::OneFOneB;
    }
  }

  double states_bytes() const {
    const MemoryUse use = memory_use(out_.asked, constants_);
    return use.weights + use.gradients + use.optimizer;
  }

  void state_sharding() {
    Layout& l = out_.asked.layout;
    if (run_.zero && *run_.zero >= 0 && *run_.zero <= 3) {
      l.zero = static_cast<int>(*run_.zero);
    } else {
      l.zero = l.shard > 1 ? 1 : 0;
      if (l.shard > 1) assume("zero: not stated, taken for ", l.zero);
    }
    if (has(run_.notes, "assumed when fsdp=0") && l.zero == 1 && l.pp == 1 && l.tp == 1 &&
        out_.asked.shape.experts == 0 && states_bytes() > 0.9 * out_.asked.hardware.memory) {
      l.zero = 3;
      assume("zero: its states do not fit, so taken for 3");
    }
    if (l.zero == 0) {
      l.dp = l.shard;
      l.shard = 1;
    }
  }

  bool fits() const { return sextant::fits(out_.asked, memory_use(out_.asked, constants_)); }

  void memory_policy() {
    Layout& l = out_.asked.layout;
    if (run_.recompute_n == "none" || run_.recompute_n == "full" ||
        run_.recompute_n == "selective") {
      l.recompute = run_.recompute_n == "none"   ? Recompute::None
                    : run_.recompute_n == "full" ? Recompute::Full
                                                 : Recompute::Selective;
      return;
    }
    l.micro = run_.mbs && *run_.mbs >= 1 ? static_cast<int64_t>(*run_.mbs) : 1;
    for (const Recompute policy : {Recompute::None, Recompute::Selective, Recompute::Full}) {
      l.recompute = policy;
      if (fits()) break;
    }
    if (l.recompute == Recompute::Full)  // of as few layers as will do
      for (double share : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}) {
        out_.asked.practice.recomputed = share;
        if (fits()) break;
      }
    if (l.recompute == Recompute::Full)
      assume("recompute: not stated, full in a share of ", out_.asked.practice.recomputed,
             " of the layers, the least that fits");
    else
      assume("recompute: not stated, the least that fits: ",
             l.recompute == Recompute::None ? "none" : "selective");
  }

  void micro_batch() {
    Layout& l = out_.asked.layout;
    if (run_.mbs && *run_.mbs >= 1 && *run_.mbs < 1e6) {
      l.micro = static_cast<int64_t>(*run_.mbs);
      return;
    }
    if (l.zero == 3 && l.pp > 1 && out_.asked.global_batch >= l.data_ranks() * l.pp) {
      l.micro = out_.asked.global_batch / (l.data_ranks() * l.pp);
      assume("mbs: not stated, as many micro-batches as stages: ", l.micro);
      return;
    }
    double best = INFINITY;
    int64_t choice = 1;
    for (const int64_t micro : {1, 2, 4, 8, 16}) {
      l.micro = micro;
      if (out_.asked.global_batch % (l.data_ranks() * micro) != 0) continue;
      if (micro > 1 && !fits()) break;
      const double seconds = step_time(out_.asked, constants_).total();
      if (seconds >= best) continue;
      best = seconds;
      choice = micro;
    }
    l.micro = choice;
    assume("mbs: not stated, taken for ", choice);
  }

  Storage& storage_;
  const PublishedRun& run_;
  const Constants& constants_;
  InferredCase out_;
};

}  // namespace

InferredCase infer_case(Storage& storage, const PublishedRun& run, const Constants& constants) {
  return Reader(storage, run, constants).read();
}

}  // namespace sextant
