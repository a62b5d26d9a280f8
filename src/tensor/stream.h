#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/arena.h"
#include "tensor/team.h"

namespace sextant {

// Where and in what order operations run: a rank's arena and its threads. Calls on one stream run
// one after another.
class Stream {
 public:
  // Working memory of the kernels, taken once: it is part of every memory prediction.
  static constexpr int64_t kThreadScratch = int64_t{2} << 20;   // bytes for each thread
  static constexpr int64_t kSharedScratch = int64_t{16} << 20;  // bytes for all together
  static constexpr int64_t scratch_bytes(int threads) {
    return kSharedScratch + threads * kThreadScratch;
  }

  Stream(Arena& arena, int threads);

  Arena& arena() { return arena_; }
  Team& team() { return team_; }
  Device device() const { return arena_.device(); }
  int threads() const { return team_.size(); }

  // 64-byte aligned; contents are unspecified between ops. Only inside an op.
  std::span<std::byte> thread_scratch(int thread);
  std::span<std::byte> shared_scratch();

 private:
  friend class Access;

  Arena& arena_;
  Team team_;
  Tensor scratch_;
  int open_ = 0;
};

// While it lives, the memory of the stream's arena may be touched. Every op, collective and copy
// opens one; on an ordinary device it costs nothing.
class Access {
 public:
  explicit Access(Stream& stream);
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

 private:
  Stream& stream_;
};

}  // namespace sextant
