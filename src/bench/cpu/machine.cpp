#include "bench/machine.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "bench/cpu/fma_chains.h"
#include "tensor/device.h"
#include "tensor/team.h"

namespace sextant {
namespace {

constexpr double kBudget = 0.1;  // seconds per limit; a slow build repeats less

// Best of several repeats: the limit of an otherwise idle machine.
template <class F>
double best_seconds(int repeats, F&& work) {
  const SystemClock clock;
  const double begin = clock.now();
  double best = 1e30;
  for (int i = 0; i < repeats && (i == 0 || clock.now() - begin < kBudget); ++i) {
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

double fma_peak(int threads, DType operands) {
  Team team(threads);
  // Two milliseconds, many times: longer than waking the threads takes, short enough that on a
  // shared machine all of them run undisturbed once.
  constexpr int64_t kFlops = 240'000'000;
  constexpr int kRepeats = 30;
  std::atomic<float> keep{0};
  const auto rate = [&](float (*run)(int64_t), int64_t flops_per_round, int repeats) {
    const int64_t rounds = kFlops / flops_per_round;
    const double seconds = best_seconds(repeats, [&] {
      team.run([&](int) { keep.store(run(rounds), std::memory_order_relaxed); });
    });
    return static_cast<double>(threads * rounds * flops_per_round) / seconds;
  };
  if (operands == DType::BF16 && has_avx512_bf16())
    return rate(fma_chains_bf16, kFlopsPerRoundBf16, kRepeats);
  if (!has_avx512()) return rate(fma_chains_256, kFlopsPerRound256, kRepeats);
  // Where wider vectors lower the clock, the narrower ones can be as fast.
  return std::max(rate(fma_chains_256, kFlopsPerRound256, kRepeats / 3),
                  rate(fma_chains_512, kFlopsPerRound512, kRepeats));
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
