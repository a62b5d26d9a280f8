#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace sextant {

// A fixed set of threads that run one function together; the caller is thread 0. Workers spin
// briefly between calls, then sleep. Not thread-safe: one call at a time.
class Team {
 public:
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // f(thread) on every thread; returns when all are done. Rethrows the first exception.
  template <class F>
  void run(F&& f) {
    using Function = std::remove_reference_t<F>;
    start([](void* context, int thread) { (*static_cast<Function*>(context))(thread); },
          const_cast<void*>(static_cast<const void*>(&f)));
  }

  // f(begin, end, thread) over pieces of [0, count) of `grain` each (the last may be shorter).
  // Pieces do not depend on the number of threads, only their assignment does.
  template <class F>
  void for_pieces(int64_t count, int64_t grain, F&& f) {
    if (count <= 0) return;
    if (size() == 1 || count <= grain) {
      for (int64_t begin = 0; begin < count; begin += grain)
        f(begin, begin + grain < count ? begin + grain : count, 0);
      return;
    }
    std::atomic<int64_t> next{0};
    run([&](int thread) {
      for (int64_t begin = next.fetch_add(grain, std::memory_order_relaxed); begin < count;
           begin = next.fetch_add(grain, std::memory_order_relaxed))
        f(begin, begin + grain < count ? begin + grain : count, thread);
    });
  }

 private:
  using Task = void (*)(void* context, int thread);
  void start(Task task, void* context);
  void stop();
  void work(int thread);
  void call(int thread);

  Task task_ = nullptr;
  void* context_ = nullptr;
  std::atomic<uint32_t> generation_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
  std::vector<std::thread> workers_;
};

}  // namespace sextant
