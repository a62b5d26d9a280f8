#include "bench/machine.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "tensor/team.h"

namespace sextant {
namespace {

using Lanes = float __attribute__((vector_size(32)));
constexpr int kLanes = 8;

Lanes multiply_add(Lanes a, Lanes b, Lanes c) {
  for (int i = 0; i < kLanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}

// Ten independent chains: enough to fill two units of latency four or five. Their starts differ, or
// a compiler would make one chain of them.
float run_chains(int64_t rounds) {
  const Lanes a = Lanes{} + 0.999f, b = Lanes{} + 0.001f;
  Lanes c0 = b, c1 = 2 * b, c2 = 3 * b, c3 = 4 * b, c4 = 5 * b, c5 = 6 * b, c6 = 7 * b, c7 = 8 * b,
        c8 = 9 * b, c9 = 10 * b;
  for (int64_t i = 0; i < rounds; ++i) {
    c0 = multiply_add(c0, a, b);
    c1 = multiply_add(c1, a, b);
    c2 = multiply_add(c2, a, b);
    c3 = multiply_add(c3, a, b);
    c4 = multiply_add(c4, a, b);
    c5 = multiply_add(c5, a, b);
    c6 = multiply_add(c6, a, b);
    c7 = multiply_add(c7, a, b);
    c8 = multiply_add(c8, a, b);
    c9 = multiply_add(c9, a, b);
  }
  const Lanes sum = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9;
  return sum[0];
}

// Best of some repeats: the limit is what the machine can do when left alone.
template <class F>
double best_seconds(int repeats, F&& work) {
  const SystemClock clock;
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const double start = clock.now();
    work();
    best = std::min(best, clock.now() - start);
  }
  return best;
}

struct Arrays {
  static constexpr int64_t kElements = int64_t{16} << 20;  // 64 MiB each
  std::unique_ptr<float[]> a{new float[kElements]}, b{new float[kElements]},
      c{new float[kElements]};

  explicit Arrays(Team& team) {
    for_parts(team, [&](int64_t begin, int64_t end) {
      std::fill(a.get() + begin, a.get() + end, 1.0f);
      std::fill(b.get() + begin, b.get() + end, 2.0f);
      std::fill(c.get() + begin, c.get() + end, 0.0f);
    });
  }
  template <class F>
  void for_parts(Team& team, F&& f) {
    const int64_t part = kElements / team.size();
    team.run([&](int thread) { f(thread * part, (thread + 1) * part); });
  }
};

}  // namespace

double fma_peak(int threads) {
  Team team(threads);
  // Two milliseconds, many times: longer than it takes to wake threads, short enough that on a
  // shared machine all of them run undisturbed once.
  constexpr int64_t kRounds = 1'500'000;
  constexpr int kRepeats = 30;
  std::atomic<float> keep{0};
  const double seconds = best_seconds(kRepeats, [&] {
    team.run([&](int) { keep.store(run_chains(kRounds), std::memory_order_relaxed); });
  });
  return static_cast<double>(threads) * kRounds * 10 * kLanes * 2 / seconds;
}

double copy_bandwidth(int threads) {
  Team team(threads);
  Arrays arrays(team);
  const double seconds = best_seconds(5, [&] {
    arrays.for_parts(team, [&](int64_t begin, int64_t end) {
      std::memcpy(arrays.c.get() + begin, arrays.a.get() + begin,
                  static_cast<size_t>(end - begin) * sizeof(float));
    });
  });
  return 2.0 * Arrays::kElements * sizeof(float) / seconds;
}

double add_bandwidth(int threads) {
  Team team(threads);
  Arrays arrays(team);
  const double seconds = best_seconds(5, [&] {
    arrays.for_parts(team, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) arrays.c[i] = arrays.a[i] + arrays.b[i];
    });
  });
  return 3.0 * Arrays::kElements * sizeof(float) / seconds;
}

}  // namespace sextant
