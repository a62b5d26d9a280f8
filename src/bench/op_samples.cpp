#include "bench/op_samples.h"

#include <time.h>

#include <algorithm>
#include <mutex>

#include "comm/run_ranks.h"
#include "ops/matmul.h"
#include "ops/random_fill.h"

namespace sextant {
namespace {

constexpr int kTurns = 3;

double seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Product {
  int64_t m, n, k;
  Transpose a, b;
  DType dtype;
};

// Forward, input gradient and weight gradient of layers of several sizes.
std::vector<Product> products() {
  std::vector<Product> all;
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16})
    for (const int64_t m : {32, 128, 512})
      for (const int64_t n : {64, 256, 1024})
        for (const int64_t k : {64, 256, 1024}) {
          all.push_back({m, n, k, Transpose::No, Transpose::Yes, dtype});
          all.push_back({m, n, k, Transpose::No, Transpose::No, dtype});
          all.push_back({n, k, m, Transpose::Yes, Transpose::No, dtype});
        }
  return all;
}

void run_product(OpTimer& timer, Arena& arena, Stream& stream, const Product& p) {
  const auto make = [&](const Shape& shape) {
    return arena.allocate(Category::Workspace, p.dtype, shape);
  };
  const bool ta = p.a == Transpose::Yes, tb = p.b == Transpose::Yes;
  Tensor a = make(ta ? Shape{p.k, p.m} : Shape{p.m, p.k});
  Tensor b = make(tb ? Shape{p.n, p.k} : Shape{p.k, p.n}), c = make({p.m, p.n});
  fill_constant(stream, a, 0.5);
  fill_constant(stream, b, 0.5);
  arena.set_recorder(&timer.recorder());
  timer.start();
  matmul(stream, c, a, p.a, b, p.b, {});
  timer.finish();
  arena.set_recorder(nullptr);
}

}  // namespace

void OpSamples::add(const CostSample& s) {
  times_[{s.key, s.flops, s.read, s.written, s.sent}].push_back(s.seconds);
}

void OpSamples::add(const OpSamples& other) {
  for (const auto& [work, times] : other.times_)
    times_[work].insert(times_[work].end(), times.begin(), times.end());
}

double lower_quartile(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::ranges::nth_element(values, at);
  return *at;
}

double thread_seconds() {
  return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

double process_seconds() {
  return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

std::vector<CostSample> OpSamples::typical() const {
  std::vector<CostSample> out;
  for (const auto& [work, times] : times_) {
    const auto& [key, flops, read, written, sent] = work;
    out.push_back({key, flops, read, written, sent, lower_quartile(times)});
  }
  return out;
}

void OpTimer::start() {
  begin_ = thread_seconds();
}

OpTimer::OpTimer(int threads) {
  recorder_.forget_operands([this, threads](const Trace& trace, const TraceOp& op) {
    const double now = thread_seconds();
    if (op.lane == Trace::kCompute && counts)
      samples.add({operation_key(op.name, type_of(trace, op), threads), op.flops,
                   static_cast<double>(op.read), static_cast<double>(op.written), 0, now - begin_});
    start();
  });
}

void sample_products(int cores, int threads, OpSamples& samples) {
  constexpr int64_t kRoom = int64_t{64} << 20;
  std::mutex mutex;
  run_ranks(std::max(1, cores / threads), [&](Communicator& rank) {
    Arena arena(Device{}, kRoom + Stream::scratch_bytes(threads));
    Stream stream(arena, threads);
    OpTimer timer(threads);
    for (int turn = 0; turn <= kTurns; ++turn)
      for (const Product& product : products()) {
        rank.control().barrier();
        timer.counts = turn > 0;
        run_product(timer, arena, stream, product);
      }
    const std::lock_guard lock(mutex);
    samples.add(timer.samples);
  });
}

}  // namespace sextant
