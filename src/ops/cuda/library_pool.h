#pragma once
// What a thread has of a library: a handle, and what was made with it. cuBLASLt and cuDNN keep data
// of their own by thread, which is freed at the end of the thread before our older thread_local
// objects are destroyed: destructors that call the library then would work on freed memory. So
// nothing is destroyed at the end of a thread. The next one takes what it left, with its plans.
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace sextant::cuda {

// Ts by GPU, each used by one thread at a time; T::start() begins its use by a thread. Ranks are
// threads, so there are at most as many as ranks have run at once. Never destroyed.
template <class T>
class LibraryPool {
 public:
  // The calling thread's, until it ends.
  static T& of_thread(int gpu) {
    thread_local Lease lease;
    T*& own = lease.by_gpu[gpu];
    if (own == nullptr) {
      own = pool().take(gpu);
      own->start();
    }
    return *own;
  }

 private:
  struct Lease {
    ~Lease() {
      for (const auto& [gpu, own] : by_gpu)
        if (own != nullptr) pool().give_back(gpu, own);
    }
    std::map<int, T*> by_gpu;
  };

  static LibraryPool& pool() {
    static LibraryPool& made = *new LibraryPool;
    return made;
  }
  T* take(int gpu) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<T*>& free = free_[gpu];
      if (!free.empty()) {
        T* last = free.back();
        free.pop_back();
        return last;
      }
    }
    auto made = std::make_unique<T>();
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(made));
    return all_.back().get();
  }
  void give_back(int gpu, T* own) {
    const std::lock_guard lock(mutex_);
    free_[gpu].push_back(own);
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> all_;
  std::map<int, std::vector<T*>> free_;
};

}  // namespace sextant::cuda
