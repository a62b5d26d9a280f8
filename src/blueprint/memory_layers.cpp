#include "blueprint/memory_layers.h"

#include "blueprint/memory_context.h"

namespace sextant {
namespace {

// TensorRanks::enter and leave: with own tokens all of them exist besides for a while.
void enter(MemoryWalk& walk, const ActivationSizes& s) {
  if (s.own_tokens) walk.take(s.all_hidden);
}

void end_of_entered(MemoryWalk& walk, const ActivationSizes& s) {
  if (s.own_tokens) walk.free(s.all_hidden);
}

// Of a term of all tokens that is there becomes the sum of this rank's.
void leave(MemoryWalk& walk, const ActivationSizes& s) {
  if (!s.own_tokens) return;
  walk.take(s.hidden);
  walk.free(s.all_hidden);
}

// Gradient of what a block adds to x: dy, or a new tensor without what was dropped; of all tokens.
// The weight half needs it.
void branch_dy(MemoryWalk& walk, const ActivationSizes& s) {
  if (s.dropout) walk.take(s.hidden);
  enter(walk, s);
  if (s.dropout && s.own_tokens) walk.free(s.hidden);
}

void attention_forward(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(s.hidden + s.statistics);  // normed
  enter(walk, s);
  walk.take(s.qkv);
  end_of_entered(walk, s);
  if (s.head_norm) walk.take(s.qkv + s.head_statistics);
  core_forward(walk, s);
  walk.take(s.all_hidden);  // y, or a term of it
  leave(walk, s);
}

void mlp_forward(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(s.hidden + s.statistics);  // normed
  enter(walk, s);
  walk.take(s.wide + s.ffn);
  end_of_entered(walk, s);
  walk.take(s.all_hidden);  // y, or a term of it
  leave(walk, s);
}

// The tail that both share: dnormed, then dx; then dnormed, x and the statistics go.
void norm_input(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(s.all_hidden);  // dnormed, or a term of it
  leave(walk, s);
  walk.take(s.hidden);                 // dx
  walk.free(s.hidden + s.statistics);  // statistics; x, the y of the layer before
  walk.free(s.hidden);                 // dnormed
}

void attention_input(MemoryWalk& walk, const ActivationSizes& s) {
  branch_dy(walk, s);
  walk.take(s.attended);  // gradient of the attention output
  core_backward(walk, s);
  if (s.head_norm) walk.free(s.qkv + s.head_statistics);
  norm_input(walk, s);
}

void attention_weight(MemoryWalk& walk, const ActivationSizes& s) {
  enter(walk, s);
  end_of_entered(walk, s);
  walk.free(s.hidden + s.qkv + s.attended);  // normed, dqkv, attended
  walk.free(s.all_hidden);                   // dy
}

void mlp_input(MemoryWalk& walk, const ActivationSizes& s) {
  branch_dy(walk, s);
  walk.take(s.ffn);  // gradient of the product, or of the pre-activation
  walk.free(s.ffn);  // gated: done with it; else the pre-activation goes and it stays
  norm_input(walk, s);
}

void mlp_weight(MemoryWalk& walk, const ActivationSizes& s) {
  enter(walk, s);
  end_of_entered(walk, s);
  walk.free(s.hidden + s.wide + s.ffn);  // normed, wide gradient, active
  walk.free(s.all_hidden);               // dy
}

void head_forward(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(s.hidden + s.statistics);  // normed
  enter(walk, s);
  walk.take(s.token_value);      // lse
  walk.take(s.token_value);      // loss
  walk.take(3 * s.token_value);  // running
  walk.take(s.logits);
  if (!s.keep_logits) walk.free(s.logits);
  if (s.ranks > 1) {  // the running values of all
    walk.take(3 * s.token_value * s.ranks);
    walk.free(3 * s.token_value * s.ranks);
  }
  walk.free(3 * s.token_value);
  end_of_entered(walk, s);
}

void head_input(MemoryWalk& walk, const ActivationSizes& s) {
  if (!s.keep_logits) enter(walk, s);
  walk.take(s.all_hidden);  // dnormed, or a term of it
  if (!s.keep_logits) {
    walk.take(s.logits);
    walk.free(s.logits);
  }
  walk.free(s.token_value);                                 // lse
  if (!s.keep_logits && s.own_tokens) walk.free(s.hidden);  // normed leaves its slot
  leave(walk, s);
  // Under Chunked all of `normed` is held to the end of the call.
  walk.take(s.hidden);                          // dx
  walk.free(s.hidden + s.statistics);           // x, statistics
  walk.free(s.hidden);                          // dnormed
  if (!s.keep_logits) walk.free(s.all_hidden);  // normed: the weight half is done as well
}

void head_weight(MemoryWalk& walk, const ActivationSizes& s) {
  if (!s.keep_logits) return;
  enter(walk, s);
  end_of_entered(walk, s);
  walk.free(s.hidden + s.logits);  // normed, gradient of the logits
}

void embedding_forward(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(s.all_hidden);
  leave(walk, s);
}

void embedding_weight(MemoryWalk& walk, const ActivationSizes& s) {
  enter(walk, s);
  end_of_entered(walk, s);
  walk.free(s.hidden);  // dy
}

void walk_forward(MemoryWalk& walk, const ActivationSizes& s, LayerKind kind) {
  if (kind == LayerKind::Embedding) embedding_forward(walk, s);
  if (kind == LayerKind::Attention) attention_forward(walk, s);
  if (kind == LayerKind::Mlp) mlp_forward(walk, s);
  if (kind == LayerKind::Head) head_forward(walk, s);
}

void walk_input(MemoryWalk& walk, const ActivationSizes& s, LayerKind kind) {
  if (kind == LayerKind::Embedding && s.dropout) walk.take(s.hidden);  // kept in place of dy
  if (kind == LayerKind::Attention) attention_input(walk, s);
  if (kind == LayerKind::Mlp) mlp_input(walk, s);
  if (kind == LayerKind::Head) head_input(walk, s);
}

void walk_weight(MemoryWalk& walk, const ActivationSizes& s, LayerKind kind) {
  if (kind == LayerKind::Embedding) embedding_weight(walk, s);
  if (kind == LayerKind::Attention) attention_weight(walk, s);
  if (kind == LayerKind::Mlp) mlp_weight(walk, s);
  if (kind == LayerKind::Head) head_weight(walk, s);
}

}  // namespace

ActivationSizes::ActivationSizes(const Blueprint& blueprint, const MemoryQuestion& question) {
  const ModelConfig& model = blueprint.model;
  context = question.context;
  const int64_t tokens = question.micro * (question.seq / context.degree);
  const int64_t e = question.element_size;
  ranks = blueprint.tensor.degree;
  own_tokens = blueprint.tensor.sequence && ranks > 1;
  const int64_t own = own_tokens ? tokens / ranks : tokens;
  hidden = own * model.hidden * e;
  all_hidden = tokens * model.hidden * e;
  // LayerNorm keeps mean and 1/deviation, RMSNorm only 1/rms.
  statistics = own * (model.family == Family::Gpt2 ? 2 : 1) * e;
  const int64_t heads = blueprint.heads(), kv_heads = blueprint.kv_heads();
  qkv = tokens * (heads + 2 * kv_heads) * model.head_dim * e;
  head_statistics = tokens * (heads + kv_heads) * e;
  exchanges = context.ulysses > 1;
  const int64_t copies = std::max<int64_t>(1, context.ulysses / kv_heads);
  kv = tokens * kv_heads * copies * 2 * model.head_dim * e;
  core_qkv = tokens * (heads + 2 * kv_heads * copies) * model.head_dim * e;
  attended = tokens * heads * model.head_dim * e;
  lse = tokens * heads * e;
  ffn = tokens * blueprint.ffn() * e;
  wide = model.family == Family::Gpt2 ? ffn : 2 * ffn;
  token_value = tokens * e;
  const bool keep = question.logits == LogitsPolicy::Keep;
  const int64_t columns = blueprint.vocab_rows();
  logits = tokens * e * (keep ? columns : std::min(question.logits_chunk, columns));
  constexpr int64_t kId = 4;  // bytes
  ids = 4 * tokens * kId;
  if (context.degree > 1)
    ids = (3 * tokens + 2 * context_parts(context) * context.ulysses * tokens) * kId;
  dropout = model.dropout > 0;
  if (dropout) ids += tokens * kId;
  head_norm = model.family == Family::Qwen3;
  keep_logits = keep;
}

void walk_layer(MemoryWalk& walk, const ActivationSizes& sizes, LayerKind kind, Pass pass) {
  if (pass == Pass::Forward) walk_forward(walk, sizes, kind);
  if (pass == Pass::Input || pass == Pass::Backward) walk_input(walk, sizes, kind);
  if (pass == Pass::Weight || pass == Pass::Backward) walk_weight(walk, sizes, kind);
  // Where another tensor is kept in place of dy, of all tokens or without what was dropped, dy goes
  // with the call.
  const bool is_back = pass == Pass::Input || pass == Pass::Backward;
  const bool in_block = kind == LayerKind::Attention || kind == LayerKind::Mlp;
  const bool keeps_other = (in_block && (sizes.own_tokens || sizes.dropout)) ||
                           (kind == LayerKind::Embedding && sizes.dropout);
  if (is_back && keeps_other) walk.free(sizes.hidden);
}

}  // namespace sextant
