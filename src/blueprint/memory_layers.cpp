#include "blueprint/memory_layers.h"

namespace sextant {
namespace {

// Kept by forward besides x: x of the first layer belongs to the embedding, x of any other to the
// layer before it, which counts it as its y.
int64_t attention_kept(const ActivationSizes& s) {
  return s.hidden + s.statistics + s.qkv + (s.head_norm ? s.qkv + s.head_statistics : 0) +
         s.attended + s.lse;
}

int64_t mlp_kept(const ActivationSizes& s) {
  return s.hidden + s.statistics + s.wide + s.ffn;
}

void attention_forward(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(attention_kept(s));
  walk.take(s.hidden);  // y
}

void mlp_forward(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(mlp_kept(s));
  walk.take(s.hidden);  // y
}

// The tail that both share: dnormed, then dx; then dnormed, x and the statistics go.
void norm_input(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(s.hidden);                 // dnormed
  walk.take(s.hidden);                 // dx
  walk.free(s.hidden + s.statistics);  // statistics; x, the y of the layer before
  walk.free(s.hidden);                 // dnormed
}

void attention_input(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(s.attended);  // gradient of the attention output
  walk.take(s.qkv);       // dqkv
  walk.free(s.attended);
  walk.free(s.lse);
  if (s.head_norm) walk.free(s.qkv + s.head_statistics);
  walk.free(s.qkv);  // dqkv takes its slot
  norm_input(walk, s);
}

void attention_weight(MemoryWalk& walk, const ActivationSizes& s) {
  walk.free(s.hidden + s.qkv + s.attended);  // normed, dqkv, attended
  walk.free(s.hidden);                       // dy
}

void mlp_input(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(s.ffn);  // gradient of the product, or of the pre-activation
  walk.free(s.ffn);  // gated: done with it; else the pre-activation goes and it stays
  norm_input(walk, s);
}

void mlp_weight(MemoryWalk& walk, const ActivationSizes& s) {
  walk.free(s.hidden + s.wide + s.ffn);  // normed, wide gradient, active
  walk.free(s.hidden);                   // dy
}

void head_forward(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(s.hidden + s.statistics);  // normed
  walk.take(s.token_value);            // lse
  walk.take(s.token_value);            // loss
  walk.take(3 * s.token_value);        // running
  walk.take(s.logits);
  if (!s.keep_logits) walk.free(s.logits);
  walk.free(3 * s.token_value);
}

void head_input(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(s.hidden);  // dnormed
  if (!s.keep_logits) {
    walk.take(s.logits);
    walk.free(s.logits);
  }
  walk.free(s.token_value);  // lse
  // Under Chunked `normed` leaves its slot but is held to the end of the call, as under Keep.
  walk.take(s.hidden);                      // dx
  walk.free(s.hidden + s.statistics);       // x, statistics
  walk.free(s.hidden);                      // dnormed
  if (!s.keep_logits) walk.free(s.hidden);  // normed: the weight half is done as well
}

void head_weight(MemoryWalk& walk, const ActivationSizes& s) {
  if (s.keep_logits) walk.free(s.hidden + s.logits);  // normed, gradient of the logits
}

void walk_forward(MemoryWalk& walk, const ActivationSizes& s, LayerKind kind) {
  if (kind == LayerKind::Embedding) walk.take(s.hidden);
  if (kind == LayerKind::Attention) attention_forward(walk, s);
  if (kind == LayerKind::Mlp) mlp_forward(walk, s);
  if (kind == LayerKind::Head) head_forward(walk, s);
}

void walk_input(MemoryWalk& walk, const ActivationSizes& s, LayerKind kind) {
  if (kind == LayerKind::Attention) attention_input(walk, s);
  if (kind == LayerKind::Mlp) mlp_input(walk, s);
  if (kind == LayerKind::Head) head_input(walk, s);
}

void walk_weight(MemoryWalk& walk, const ActivationSizes& s, LayerKind kind) {
  if (kind == LayerKind::Embedding) walk.free(s.hidden);  // dy
  if (kind == LayerKind::Attention) attention_weight(walk, s);
  if (kind == LayerKind::Mlp) mlp_weight(walk, s);
  if (kind == LayerKind::Head) head_weight(walk, s);
}

}  // namespace

ActivationSizes::ActivationSizes(const Blueprint& blueprint, const MemoryQuestion& question) {
  const ModelConfig& model = blueprint.model;
  const int64_t tokens = question.micro * question.seq, e = question.element_size;
  hidden = tokens * model.hidden * e;
  // LayerNorm keeps mean and 1/deviation, RMSNorm only 1/rms.
  statistics = tokens * (model.family == Family::Gpt2 ? 2 : 1) * e;
  qkv = tokens * (model.heads + 2 * model.kv_heads) * model.head_dim * e;
  head_statistics = tokens * (model.heads + model.kv_heads) * e;
  attended = tokens * model.heads * model.head_dim * e;
  lse = tokens * model.heads * e;
  ffn = tokens * model.ffn * e;
  wide = model.family == Family::Gpt2 ? ffn : 2 * ffn;
  token_value = tokens * e;
  const bool keep = question.logits == LogitsPolicy::Keep;
  logits =
      tokens * e *
      (keep ? blueprint.padded_vocab : std::min(question.logits_chunk, blueprint.padded_vocab));
  ids = tokens * 4;
  head_norm = model.family == Family::Qwen3;
  keep_logits = keep;
}

void walk_layer(MemoryWalk& walk, const ActivationSizes& sizes, LayerKind kind, Pass pass) {
  if (pass == Pass::Forward) walk_forward(walk, sizes, kind);
  if (pass == Pass::Input || pass == Pass::Backward) walk_input(walk, sizes, kind);
  if (pass == Pass::Weight || pass == Pass::Backward) walk_weight(walk, sizes, kind);
}

}  // namespace sextant
