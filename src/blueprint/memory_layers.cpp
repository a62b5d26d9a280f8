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

// A term of all tokens, of which the sum of this rank's is made.
void leave_whole(MemoryWalk& walk, const ActivationSizes& s, int64_t to_make = 0) {
  walk.take(s.all_hidden);
  walk.take(to_make);
  walk.free(to_make);
  if (!s.own_tokens) return;
  walk.take(s.hidden);
  walk.free(s.all_hidden);
}

// The same of work that is given to `leave`. In pieces, a term exists of one rank's tokens at a
// time; besides, the one that goes to the next rank and the sum that comes from the one before.
// `to_make` is what the work needs for all terms, for a while.
void leave(MemoryWalk& walk, const ActivationSizes& s, int64_t to_make = 0) {
  if (!s.in_pieces) return leave_whole(walk, s, to_make);
  walk.take(3 * s.hidden + to_make / s.ranks);
  walk.free(2 * s.hidden + to_make / s.ranks);
}

// Gradient of what a block adds to x: dy, or a new tensor without what was dropped; of all tokens,
// which the weight half needs. And `dx`, the gradient of what the block's last matrix reads.
void branch_input(MemoryWalk& walk, const ActivationSizes& s, int64_t dx) {
  if (s.dropout) walk.take(s.hidden);
  walk.take(dx);
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
  leave(walk, s);  // y
}

void mlp_forward(MemoryWalk& walk, const ActivationSizes& s) {
  walk.take(s.hidden + s.statistics);  // normed
  enter(walk, s);
  walk.take(s.wide + (s.gated ? 0 : s.ffn));
  end_of_entered(walk, s);
  if (s.gated) walk.take(s.ffn);
  leave(walk, s);  // y
}

// The tail that both share: dnormed, then dx; then dnormed, x and the statistics go.
void norm_input(MemoryWalk& walk, const ActivationSizes& s) {
  leave(walk, s);                      // dnormed
  walk.take(s.hidden);                 // dx
  walk.free(s.hidden + s.statistics);  // statistics; x, the y of the layer before
  walk.free(s.hidden);                 // dnormed
}

void attention_input(MemoryWalk& walk, const ActivationSizes& s) {
  branch_input(walk, s, s.attended);
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
  branch_input(walk, s, s.ffn);  // of the product, or of the pre-activation
  walk.free(s.ffn);              // gated: done with it; else the pre-activation goes and it stays
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
  walk.take(s.token_value);            // lse
  walk.take(s.token_value);            // loss
  walk.take(3 * s.token_value);        // running
  if (s.keep_logits) walk.take(s.logits);
  enter(walk, s);
  if (!s.keep_logits) {
    walk.take(s.logits / (s.in_pieces ? s.ranks : 1));
    walk.free(s.logits / (s.in_pieces ? s.ranks : 1));
  }
  end_of_entered(walk, s);
  if (s.ranks > 1) {  // the running values of all
    walk.take(3 * s.token_value * s.ranks);
    walk.free(3 * s.token_value * s.ranks);
  }
  walk.free(3 * s.token_value);
}

void head_input(MemoryWalk& walk, const ActivationSizes& s) {
  if (!s.keep_logits) enter(walk, s);
  leave(walk, s, s.keep_logits ? 0 : s.logits);             // dnormed
  walk.free(s.token_value);                                 // lse
  if (!s.keep_logits && s.own_tokens) walk.free(s.hidden);  // normed leaves its slot
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
  leave_whole(walk, s);
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
  in_pieces = blueprint.tensor.overlap && own_tokens;
  const int64_t own = own_tokens ? tokens / ranks : tokens;
  hidden = own * model.hidden * e;
  all_hidden = tokens * model.hidden * e;
  // LayerNorm keeps mean and 1/deviation, RMSNorm only 1/rms.
  statistics = own * (model.family == Family::Gpt2 ? 2 : 1) * e;
  const int64_t heads = blueprint.heads(), kv_heads = blueprint.kv_heads();
  qkv = tokens * (heads + 2 * kv_heads) * model.head_dim * e;
  head_statistics = tokens * (heads + kv_heads) * e;
  exchanges = context.ulysses > 1;
  const int64_t copies = kv_copies(context, kv_heads);
  kv = tokens * kv_heads * copies * 2 * model.head_dim * e;
  core_qkv = tokens * (heads + 2 * kv_heads * copies) * model.head_dim * e;
  attended = tokens * heads * model.head_dim * e;
  lse = tokens * heads * e;
  ffn = tokens * blueprint.ffn() * e;
  gated = model.family != Family::Gpt2;
  wide = gated ? 2 * ffn : ffn;
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
