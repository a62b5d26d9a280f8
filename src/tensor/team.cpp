#include "tensor/team.h"

#include <system_error>
#include <utility>

#include "base/error.h"

namespace sextant {
namespace {

constexpr int kSpins = 8000;  // some tens of microseconds: longer than the gap between two ops

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` differs from `old`: spins, then sleeps.
template <class T>
void wait_for_change(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

Team::Team(int threads) {
  SXT_CHECK(threads > 0, Usage, "a team of ", threads, " threads");
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    const size_t made = workers_.size() + 1;
    stop();
    SXT_FAIL(Failure, "only ", made, " of ", threads, " threads could be made: ", error.what());
  }
}

Team::~Team() {
  stop();
}

void Team::stop() {
  stop_.store(true);
  generation_.fetch_add(1);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Team::call(int thread) {
  try {
    task_(context_, thread);
  } catch (...) {
    if (!failed_.exchange(true)) failure_ = std::current_exception();
  }
}

void Team::work(int thread) {
  uint32_t seen = 0;
  while (true) {
    wait_for_change(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    call(thread);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void Team::start(Task task, void* context) {
  task_ = task;
  context_ = context;
  if (!workers_.empty()) {
    running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }
  call(0);
  for (int left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire))
    wait_for_change(running_, left);
  if (failed_.exchange(false)) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace sextant
