#include "bench/attention.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "bench/attention_unfused.h"
#include "bench/machine.h"
#include "bench/tiled_attention.h"
#include "sim/measured.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

constexpr double kGigaFlop = 1e9;

double pairs(const Heads& h) {
  const double seq = static_cast<double>(h.seq);
  return static_cast<double>(h.batch * h.heads) * seq * (seq + 1) / 2;
}

double bytes(double elements) {
  return 4 * elements;
}
double qkv_elements(const Heads& h) {
  return static_cast<double>(h.tokens() * h.qkv_width());
}
double out_elements(const Heads& h) {
  return static_cast<double>(h.tokens() * h.out_width());
}
double lse_elements(const Heads& h) {
  return static_cast<double>(h.tokens() * h.heads);
}
double score_elements(const Heads& h) {
  return static_cast<double>(h.tokens() * h.heads * h.seq);
}

struct Unfused {
  Unfused(const Heads& h, int threads)
      : arena(Device{}, room(h, threads)), stream(arena, threads), attention(stream, h) {
    for (Tensor* x : {&attention.q, &attention.k, &attention.v})
      fill_normal(stream, *x, 1, "qkv", 1, 0);
    fill_normal(stream, attention.dout, 1, "dout", 1, 0);
  }
  static int64_t room(const Heads& h, int threads) {
    return 4 * (2 * h.tokens() * (h.qkv_width() + h.out_width()) +
                (h.batch * h.heads + 1) * h.seq * h.seq) +
           Stream::scratch_bytes(threads) + TiledAttention::kSlack;
  }

  Arena arena;
  Stream stream;
  UnfusedAttention attention;
};

// GFLOP/s of one turn: a warm-up call, then calls until the turn is over.
double take_turn(double turn_seconds, const Clock& clock, double flops,
                 const std::function<void()>& work) {
  work();
  const double begin = clock.now();
  int calls = 0;
  double seconds = 0;
  do {
    work();
    ++calls;
    seconds = clock.now() - begin;
  } while (seconds < turn_seconds);
  return calls * flops / seconds / kGigaFlop;
}

AttentionRow measure(const AttentionOptions& options, const Clock& clock,
                     const AttentionShape& shape, int threads) {
  TiledAttention tiled(shape.heads, threads);
  Unfused unfused(shape.heads, threads);
  const double forward = shape.forward_flops(), backward = shape.backward_flops();
  std::vector<double> turns[4];
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    const auto turn = [&](double flops, const std::function<void()>& work) {
      return take_turn(options.turn_seconds, clock, flops, work);
    };
    turns[0].push_back(turn(forward, [&] { tiled.forward(); }));
    turns[1].push_back(turn(backward, [&] { tiled.backward(); }));
    turns[2].push_back(turn(forward, [&] { unfused.attention.forward(); }));
    turns[3].push_back(turn(backward, [&] { unfused.attention.backward(); }));
  }
  AttentionRow row{.shape = shape, .threads = threads, .tiled = {}, .unfused = {}};
  row.tiled = {.forward_gflops = median(turns[0]),
               .backward_gflops = median(turns[1]),
               .forward_flops_per_byte = forward / shape.forward_bytes(),
               .backward_flops_per_byte = backward / shape.backward_bytes(),
               .peak_bytes = tiled.arena.peak()};
  row.unfused = {.forward_gflops = median(turns[2]),
                 .backward_gflops = median(turns[3]),
                 .forward_flops_per_byte = forward / shape.unfused_forward_bytes(),
                 .backward_flops_per_byte = backward / shape.unfused_backward_bytes(),
                 .peak_bytes = unfused.arena.peak()};
  return row;
}

}  // namespace

double AttentionShape::forward_flops() const {
  return 4 * pairs(heads) * static_cast<double>(heads.head_dim);
}
double AttentionShape::backward_flops() const {
  return 10 * pairs(heads) * static_cast<double>(heads.head_dim);
}
double AttentionShape::forward_bytes() const {
  return bytes(qkv_elements(heads) + out_elements(heads) + lse_elements(heads));
}
double AttentionShape::backward_bytes() const {
  return bytes(2 * qkv_elements(heads) + 2 * out_elements(heads) + lse_elements(heads));
}
double AttentionShape::unfused_forward_bytes() const {
  return bytes(qkv_elements(heads) + out_elements(heads) + 4 * score_elements(heads));
}
double AttentionShape::unfused_backward_bytes() const {
  return bytes(2 * qkv_elements(heads) + out_elements(heads) + 7 * score_elements(heads));
}

std::vector<AttentionShape> attention_shapes() {
  const auto shape = [](const std::string& name, const Heads& heads) {
    return AttentionShape{concat(name, " B", heads.batch, " H", heads.heads, "/", heads.kv_heads,
                                 " T", heads.seq, " d", heads.head_dim),
                          heads};
  };
  return {shape("S", {8, 256, 6, 6, 64}), shape("G", {4, 64, 12, 12, 64}),
          shape("long", {1, 1024, 12, 12, 64}), shape("longer", {1, 2048, 8, 2, 64}),
          shape("wide", {1, 1024, 8, 2, 128})};
}

std::vector<AttentionRow> bench_attention(const AttentionOptions& options, const Clock& clock) {
  SXT_CHECK(options.repeats > 0, Usage, "bench attention: repeats=", options.repeats,
            ", must be positive");
  std::vector<AttentionRow> rows;
  for (const int threads : options.threads) {
    const double limit = fma_peak(threads);
    const double ridge = limit / copy_bandwidth(threads);
    for (const AttentionShape& shape : options.shapes) {
      AttentionRow row = measure(options, clock, shape, threads);
      row.limit_gflops = limit / kGigaFlop;
      row.ridge = ridge;
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace sextant
