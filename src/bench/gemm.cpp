#include "bench/gemm.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "bench/machine.h"
#include "ops/random_fill.h"

namespace sextant {
namespace {

constexpr double kGiga = 1e9;

double best(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

// The operands of one shape, in an arena of their own.
struct Operands {
  explicit Operands(const GemmShape& shape, int threads)
      : arena(Device{}, bytes(shape) + Stream::scratch_bytes(threads)), stream(arena, threads) {
    a = make(shape.transpose_a == Transpose::Yes ? Shape{shape.k, shape.m}
                                                 : Shape{shape.m, shape.k});
    b = make(shape.transpose_b == Transpose::Yes ? Shape{shape.n, shape.k}
                                                 : Shape{shape.k, shape.n});
    c = make({shape.m, shape.n});
  }
  static int64_t bytes(const GemmShape& s) {
    return 4 * (s.m * s.k + s.k * s.n + s.m * s.n) + 4096;
  }
  Tensor make(const Shape& shape) {
    Tensor tensor = arena.allocate(Category::Workspace, DType::F32, shape);
    fill_constant(stream, tensor, 0.5);
    return tensor;
  }

  Arena arena;
  Stream stream;
  Tensor a, b, c;
};

void call_peer(const BlasPeer& peer, const GemmShape& shape, Operands& data) {
  const bool ta = shape.transpose_a == Transpose::Yes, tb = shape.transpose_b == Transpose::Yes;
  const auto size = [](int64_t value) { return static_cast<int>(value); };
  peer.sgemm(BlasPeer::kRowMajor, ta ? BlasPeer::kTranspose : BlasPeer::kNoTranspose,
             tb ? BlasPeer::kTranspose : BlasPeer::kNoTranspose, size(shape.m), size(shape.n),
             size(shape.k), 1, data.a.data<float>(), size(ta ? shape.m : shape.k),
             data.b.data<float>(), size(tb ? shape.k : shape.n), 0, data.c.data<float>(),
             size(shape.n));
}

struct Contestant {
  std::string name;
  std::function<void()> work;
  std::vector<double> turns;  // GFLOP/s
};

// Ours, then the peers, with the speeds of their turns.
std::vector<Contestant> run_turns(const GemmOptions& options, const Clock& clock,
                                  const GemmShape& shape, int threads) {
  Operands data(shape, threads);
  std::vector<Contestant> all;
  const auto ours = [&] {
    matmul(data.stream, data.c, data.a, shape.transpose_a, data.b, shape.transpose_b, {});
  };
  all.push_back({"ours", ours, {}});
  for (const BlasPeer& peer : options.peers) {
    const auto theirs = [&] {
      peer.set_threads(threads);
      call_peer(peer, shape, data);
    };
    const std::string count = std::to_string(threads) + (threads == 1 ? " thread" : " threads");
    all.push_back({peer.name + ", " + count, theirs, {}});
  }
  for (int repeat = 0; repeat < options.repeats; ++repeat)
    for (Contestant& one : all)
      one.turns.push_back(take_turn(options, clock, shape.flops(), one.work));
  for (Contestant& one : all) one.work = nullptr;  // its references end here
  return all;
}

// `fewer`: the row of the same shape with fewer threads, whose peer may still be the fastest.
GemmRow make_row(const std::vector<Contestant>& all, const GemmShape& shape, int threads,
                 const GemmRow& fewer) {
  GemmRow row{.shape = shape, .threads = threads, .gflops = best(all[0].turns)};
  row.peer = fewer.peer;
  row.peer_gflops = fewer.peer_gflops;
  for (size_t i = 1; i < all.size(); ++i)
    if (const double speed = best(all[i].turns); speed > row.peer_gflops) {
      row.peer = all[i].name;
      row.peer_gflops = speed;
    }
  return row;
}

}  // namespace

double take_turn(const GemmOptions& options, const Clock& clock, double flops,
                 const std::function<void()>& work) {
  std::this_thread::sleep_for(std::chrono::duration<double>(options.pause_seconds));
  work();
  const double begin = clock.now();
  int calls = 0;
  double seconds = 0;
  do {
    work();
    ++calls;
    seconds = clock.now() - begin;
  } while (seconds < options.turn_seconds);
  return calls * flops / seconds / kGiga;
}

double GemmShape::flops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

double GemmShape::flops_per_byte() const {
  return flops() / (4.0 * static_cast<double>(m * k + k * n + m * n));
}

std::vector<GemmShape> gemm_shapes(const GemmModel& model) {
  std::vector<GemmShape> shapes;
  const auto add = [&](const std::string& name, int64_t in, int64_t out) {
    const std::string stem = model.name + " " + name + " ";
    shapes.push_back({stem + "forward", model.tokens, out, in, Transpose::No, Transpose::Yes});
    shapes.push_back(
        {stem + "backward input", model.tokens, in, out, Transpose::No, Transpose::No});
    shapes.push_back(
        {stem + "backward weight", out, in, model.tokens, Transpose::Yes, Transpose::No});
  };
  add("qkv", model.hidden, model.qkv);
  add("out", model.hidden, model.hidden);
  add("up", model.hidden, model.ffn);
  add("down", model.ffn, model.hidden);
  add("head", model.hidden, model.vocab);
  return shapes;
}

std::vector<GemmModel> gemm_models() {
  return {{.name = "S", .tokens = 2048, .hidden = 384, .ffn = 1536, .qkv = 1152, .vocab = 256},
          {.name = "G", .tokens = 256, .hidden = 768, .ffn = 3072, .qkv = 2304, .vocab = 50304}};
}

std::vector<GemmRow> bench_gemm(const GemmOptions& options, const Clock& clock) {
  SXT_CHECK(options.repeats > 0, Usage, "bench gemm: repeats=", options.repeats,
            ", must be positive");
  std::vector<int> thread_counts = options.threads;
  std::sort(thread_counts.begin(), thread_counts.end());
  std::vector<GemmRow> rows;
  std::map<std::string, GemmRow> fewer;  // row of a shape with the next lower thread count
  for (const int threads : thread_counts) {
    // The limits are measured between all rows, and the best one counts for all.
    double limit = 0;
    double bandwidth = copy_bandwidth(threads);
    const size_t first = rows.size();
    for (const GemmShape& shape : options.shapes) {
      limit = std::max(limit, fma_peak(threads));
      rows.push_back(
          make_row(run_turns(options, clock, shape, threads), shape, threads, fewer[shape.name]));
      fewer[shape.name] = rows.back();
    }
    bandwidth = std::max(bandwidth, copy_bandwidth(threads));
    for (size_t i = first; i < rows.size(); ++i) {
      rows[i].limit_gflops = limit / kGiga;
      rows[i].ridge = limit / bandwidth;
    }
  }
  return rows;
}

}  // namespace sextant
