#include "support/synthetic_step.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace sextant {
namespace {

// splitmix64: the standard distributions differ between libraries, this does not.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {}
  int64_t roll(int64_t from, int64_t to) {  // both included
    state_ += 0x9E3779B97F4A7C15ull;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return from + static_cast<int64_t>((z ^ (z >> 31)) % static_cast<uint64_t>(to - from + 1));
  }
  bool chance(int percent) { return roll(1, 100) <= percent; }

 private:
  uint64_t state_;
};

// Sizes in bytes of the tensors of one stage and what is done with them.
struct Setting {
  int layers, micro_batches, ranks;
  int64_t hidden, qkv, attention, ffn, stats, logits, embedding;
  int64_t weights;       // of a layer, gathered when zero3
  bool gated;            // SwiGLU: two ffn-wide inputs of the product
  bool zero3, bucketed;  // gathered weights; gradients in buckets that are reduced and freed
  bool recompute;        // ffn activations are made again in backward
  bool split_backward;   // weight gradients are a pass of their own
  bool chunked_logits;
  int ring;  // steps of ring attention, 1 is none
};

int64_t rounded(int64_t bytes) {
  return std::max<int64_t>(64, (bytes + 63) / 64 * 64);
}

Setting draw_setting(Dice& dice) {
  Setting s{};
  s.layers = static_cast<int>(dice.roll(1, 12));
  s.ranks = static_cast<int>(dice.roll(2, 8));
  s.micro_batches = static_cast<int>(dice.roll(2, 4 * s.ranks));
  const int64_t element = dice.chance(50) ? 2 : 4, heads = dice.roll(4, 64);
  const int64_t head_dim = 16 * dice.roll(2, 8), tokens = 64 * dice.roll(1, 64);
  const int64_t hidden = heads * head_dim,
                kv = head_dim * std::max<int64_t>(1, heads / dice.roll(1, 8));
  const int64_t ffn = dice.chance(50) ? 4 * hidden : (hidden * 8 / 3 + 63) / 64 * 64;
  s.hidden = rounded(tokens * hidden * element);
  s.qkv = rounded(tokens * (hidden + 2 * kv) * element);
  s.attention = rounded(tokens * 2 * kv * element);
  s.ffn = rounded(tokens * ffn * element);
  s.stats = rounded(tokens * (dice.chance(50) ? heads : 1) * 4);
  const int64_t vocab = dice.roll(251, 50257);
  s.logits = rounded(tokens * vocab * 4);
  s.embedding = rounded(vocab * hidden * element);
  s.gated = dice.chance(50);
  s.weights = rounded(hidden * (2 * hidden + 2 * kv + (s.gated ? 3 : 2) * ffn) * element);
  s.zero3 = dice.chance(40);
  s.bucketed = dice.chance(50);
  s.recompute = dice.chance(25);
  s.split_backward = dice.chance(25);
  s.chunked_logits = dice.chance(50);
  s.ring = dice.chance(30) ? static_cast<int>(dice.roll(2, 4)) : 1;
  return s;
}

using Handle = int;

// Writes down what is allocated and freed, one event each.
class Recorder {
 public:
  Handle open(int64_t bytes) {
    lifetimes_.push_back({bytes, now_++, -1});
    return static_cast<Handle>(lifetimes_.size()) - 1;
  }
  void close(Handle handle) {
    Lifetime& lifetime = lifetimes_[static_cast<size_t>(handle)];
    SXT_CHECK(lifetime.end < 0, Internal, "tensor ", handle, " freed twice");
    lifetime.end = now_++;
  }
  void close_all(std::vector<Handle>& handles) {
    for (const Handle handle : handles) close(handle);
    handles.clear();
  }
  std::vector<Lifetime> finish() {
    for (Lifetime& lifetime : lifetimes_)
      if (lifetime.end < 0) lifetime.end = now_;
    return std::move(lifetimes_);
  }

 private:
  std::vector<Lifetime> lifetimes_;
  int32_t now_ = 0;
};

// What a layer keeps of one micro-batch, by the pass that frees it.
struct Kept {
  std::vector<Handle> for_input, for_weights;
};

class Stage {
 public:
  Stage(const Setting& setting, Recorder& recorder, bool last)
      : s_(setting), r_(recorder), last_(last) {
    kept_.resize(static_cast<size_t>(s_.micro_batches),
                 std::vector<Kept>(static_cast<size_t>(s_.layers)));
    head_.resize(kept_.size());
    received_.resize(kept_.size(), -1);
  }

  // A message may arrive before the pass that reads it.
  void receive(int micro_batch) {
    if (received_[at(micro_batch)] < 0) received_[at(micro_batch)] = r_.open(s_.hidden);
  }

  void forward(int m) {
    receive(m);
    Handle input = std::exchange(received_[at(m)], -1);
    if (s_.zero3) next_weights_ = r_.open(s_.weights);
    for (int layer = 0; layer < s_.layers; ++layer) {
      const Handle weights = advance_weights(layer + 1 < s_.layers);
      input = forward_layer(kept_[at(m)][static_cast<size_t>(layer)], input);
      if (weights >= 0) r_.close(weights);
    }
    if (last_) forward_head(m, input);
    if (!last_) r_.close(input);  // sent
  }

  void backward_input(int m) {
    Handle gradient = last_ ? backward_head(m) : r_.open(s_.hidden);
    if (s_.zero3) next_weights_ = r_.open(s_.weights);
    for (int layer = s_.layers - 1; layer >= 0; --layer) {
      const Handle weights = advance_weights(layer > 0);
      gradient = backward_layer(kept_[at(m)][static_cast<size_t>(layer)], gradient);
      if (weights >= 0) r_.close(weights);
    }
    r_.close(gradient);
  }

  void backward_weights(int m) {
    for (int layer = s_.layers - 1; layer >= 0; --layer)
      weight_gradients(kept_[at(m)][static_cast<size_t>(layer)]);
  }

 private:
  static size_t at(int index) { return static_cast<size_t>(index); }

  Handle advance_weights(bool more) {
    if (!s_.zero3) return -1;
    const Handle current = next_weights_;
    next_weights_ = more ? r_.open(s_.weights) : -1;
    return current;
  }

  // Keys and values of the next rank arrive while those of the last one are in use.
  void attend() {
    Handle here = -1;
    for (int step = 1; step < s_.ring; ++step) {
      const Handle next = r_.open(s_.attention);
      const Handle partial = r_.open(s_.hidden);
      r_.close(partial);
      if (here >= 0) r_.close(here);
      here = next;
    }
    if (here >= 0) r_.close(here);
  }

  Handle forward_layer(Kept& kept, Handle input) {
    kept.for_input.push_back(input);
    kept.for_input.push_back(r_.open(s_.stats));
    kept.for_weights.push_back(r_.open(s_.hidden));  // normalised
    const Handle raw = r_.open(s_.qkv);
    const Handle qkv = r_.open(s_.qkv);  // rotated
    r_.close(raw);
    kept.for_input.push_back(qkv);
    kept.for_weights.push_back(r_.open(s_.hidden));  // attention's output
    kept.for_input.push_back(r_.open(s_.stats));
    attend();
    const Handle projected = r_.open(s_.hidden);
    const Handle middle = r_.open(s_.hidden);
    r_.close(projected);
    kept.for_input.push_back(middle);
    kept.for_input.push_back(r_.open(s_.stats));
    kept.for_weights.push_back(r_.open(s_.hidden));  // normalised
    std::vector<Handle> wide = {r_.open(s_.ffn)};
    if (s_.gated) wide.push_back(r_.open(s_.ffn));
    const Handle product = r_.open(s_.ffn);
    const Handle down = r_.open(s_.hidden);
    const Handle output = r_.open(s_.hidden);
    if (s_.recompute) {
      r_.close(product);
      r_.close_all(wide);
    } else {
      kept.for_weights.push_back(product);
      kept.for_input.insert(kept.for_input.end(), wide.begin(), wide.end());
    }
    r_.close(down);
    return output;
  }

  void forward_head(int m, Handle input) {
    const Handle weights = s_.zero3 ? r_.open(s_.embedding) : -1;
    head_[at(m)].push_back(input);
    head_[at(m)].push_back(r_.open(s_.hidden));
    if (!s_.chunked_logits) head_[at(m)].push_back(r_.open(s_.logits));
    head_[at(m)].push_back(r_.open(s_.stats));
    if (weights >= 0) r_.close(weights);
  }

  Handle backward_head(int m) {
    const Handle weights = s_.zero3 ? r_.open(s_.embedding) : -1;
    const Handle bucket = s_.bucketed ? r_.open(s_.embedding) : -1;
    const Handle gradient = r_.open(s_.hidden);
    for (int chunk = 0; s_.chunked_logits && chunk < 8; ++chunk) {
      const Handle logits = r_.open(rounded(s_.logits / 8));
      r_.close(r_.open(rounded(s_.hidden / 8)));
      r_.close(logits);
    }
    r_.close_all(head_[at(m)]);
    const Handle result = r_.open(s_.hidden);
    r_.close(gradient);
    if (weights >= 0) r_.close(weights);
    if (bucket >= 0) r_.close(bucket);
    return result;
  }

  Handle backward_layer(Kept& kept, Handle gradient) {
    std::vector<Handle> wide;
    if (s_.recompute) {
      wide = {r_.open(s_.ffn), r_.open(s_.ffn)};
      kept.for_weights.push_back(r_.open(s_.ffn));
    }
    kept.for_weights.push_back(gradient);
    const Handle product = r_.open(s_.ffn);
    std::vector<Handle> wide_gradients = {r_.open(s_.ffn)};
    if (s_.gated) wide_gradients.push_back(r_.open(s_.ffn));
    r_.close(product);
    r_.close_all(wide);
    const Handle normalised = r_.open(s_.hidden);
    kept.for_weights.insert(kept.for_weights.end(), wide_gradients.begin(), wide_gradients.end());
    const Handle middle = r_.open(s_.hidden);
    r_.close(normalised);
    const Handle attended = r_.open(s_.hidden);
    const Handle qkv = r_.open(s_.qkv);
    attend();
    r_.close(attended);
    kept.for_weights.push_back(qkv);
    const Handle input = r_.open(s_.hidden);
    const Handle sum = r_.open(s_.hidden);
    r_.close(input);
    kept.for_weights.push_back(middle);
    r_.close_all(kept.for_input);
    if (!s_.split_backward) weight_gradients(kept);
    return sum;
  }

  void weight_gradients(Kept& kept) {
    if (s_.bucketed) {
      const Handle bucket = r_.open(s_.weights);
      r_.close_all(kept.for_weights);
      r_.close(bucket);
    }
    r_.close_all(kept.for_weights);
  }

  const Setting& s_;
  Recorder& r_;
  bool last_;
  std::vector<std::vector<Kept>> kept_;  // [micro-batch][layer]
  std::vector<std::vector<Handle>> head_;
  std::vector<Handle> received_;
  Handle next_weights_ = -1;
};

enum class Pass { Receive, Forward, Input, Weights };

struct Action {
  int64_t when;
  Pass pass;
  int chunk, micro_batch;
};

enum Schedule { kGPipe, kOneFOneB, kInterleaved, kZeroBubble, kV, kDualPipe, kSchedules };
constexpr std::array<const char*, kSchedules> kNames = {"gpipe", "1f1b", "interleaved",
                                                        "zb",    "v",    "dualpipe"};

// When each pass would run if all took equally long: sorted by that, it is the order of the rank.
std::vector<Action> plan_passes(Schedule schedule, const Setting& s, int rank, Dice& dice) {
  std::vector<Action> actions;
  const int p = s.ranks, m = s.micro_batches,
            chunks = schedule <= kOneFOneB || schedule == kZeroBubble ? 1 : 2;
  const int64_t early = dice.roll(0, 3), lag = s.split_backward ? dice.roll(1, 3 * p) : 0;
  const int64_t depth = dice.roll(p - rank, 2 * p);
  for (int i = 0; i < m; ++i) {
    for (int c = 0; c < chunks; ++c) {
      int64_t f = 0, b = 0;
      if (schedule == kGPipe) f = 3 * i, b = 3 * (m + i);
      if (schedule == kOneFOneB || schedule == kZeroBubble)
        f = 3 * i - (i < p - rank ? 3 * p : 0), b = 3 * (i + p - rank) - 2;
      if (schedule == kInterleaved) {
        f = 3 * (i / p * 2 * p + c * p + i % p);
        b = 3 * (i / p * 2 * p + (1 - c) * p + i % p) + 3 * (2 * p + 2 * (p - rank)) + 1;
      }
      if (schedule == kV) {
        f = 6 * i + (c == 0 ? 0 : 3 * depth);
        b = 6 * i + 3 * depth + 2 + (c == 1 ? 3 : 3 * depth);
      }
      if (schedule == kDualPipe) {
        f = 6 * i + 3 * c, b = f + 3 * (c == 0 ? 2 * p - rank : p + rank) + 1;
      }
      actions.push_back({f - 3 * early - 1, Pass::Receive, c, i});
      actions.push_back({f, Pass::Forward, c, i});
      actions.push_back({b, Pass::Input, c, i});
      if (s.split_backward) actions.push_back({b + 3 * lag + 1, Pass::Weights, c, i});
    }
  }
  std::stable_sort(actions.begin(), actions.end(),
                   [](const Action& a, const Action& b) { return a.when < b.when; });
  return actions;
}

SyntheticStep make_step(Schedule schedule, Setting& s, Dice& dice) {
  if (schedule == kZeroBubble) s.split_backward = true;
  const int rank = static_cast<int>(dice.roll(0, s.ranks - 1));
  const bool head = schedule == kV ? rank == 0 : rank == s.ranks - 1;
  Recorder recorder;
  std::vector<Stage> stages;
  stages.emplace_back(s, recorder, head && schedule != kV);
  Setting other = s;  // the second chunk may have another number of layers
  other.layers = static_cast<int>(dice.roll(std::max(1, s.layers - 1), s.layers));
  stages.emplace_back(other, recorder, head);
  for (const Action& action : plan_passes(schedule, s, rank, dice)) {
    Stage& stage = stages[static_cast<size_t>(action.chunk)];
    if (action.pass == Pass::Receive) stage.receive(action.micro_batch);
    if (action.pass == Pass::Forward) stage.forward(action.micro_batch);
    if (action.pass == Pass::Input) stage.backward_input(action.micro_batch);
    if (action.pass == Pass::Weights) stage.backward_weights(action.micro_batch);
  }
  return {concat(kNames[schedule], " layers=", s.layers, " micro=", s.micro_batches, " rank=", rank,
                 "/", s.ranks, s.zero3 ? " zero3" : "", s.split_backward ? " split" : "",
                 s.recompute ? " recompute" : "", " ring=", s.ring),
          recorder.finish()};
}

}  // namespace

SyntheticStep synthetic_step(uint64_t seed) {
  Dice dice(seed);
  Setting setting = draw_setting(dice);
  return make_step(static_cast<Schedule>(seed % kSchedules), setting, dice);
}

SyntheticStep synthetic_step(uint64_t seed, int layers, int micro_batches) {
  Dice dice(seed);
  Setting setting = draw_setting(dice);
  setting.layers = layers;
  setting.micro_batches = micro_batches;
  return make_step(static_cast<Schedule>(seed % kSchedules), setting, dice);
}

}  // namespace sextant
