#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tensor/arena.h"
#include "tensor/data_fault.h"
#include "tensor/team.h"
#include "tensor/work.h"

namespace sextant {

// An ordered queue of operations on a device, and the memory they work in. On the CPU operations
// run inline, on a team of threads; on a phantom device they are recorded and nothing runs.
class Stream {
 public:
  // Working memory of the kernels, taken once: it is part of every memory prediction.
  static constexpr int64_t kThreadScratch = int64_t{2} << 20;   // bytes for each thread
  static constexpr int64_t kSharedScratch = int64_t{16} << 20;  // bytes for all together
  static constexpr int64_t scratch_bytes(int threads) {
    return kSharedScratch + threads * kThreadScratch;
  }

  // `threads`: of the CPU, or of the CPU that a phantom device imitates.
  Stream(Arena& arena, int threads);

  Arena& arena() { return arena_; }
  Device device() const { return arena_.device(); }
  bool is_phantom() const { return device().kind == DeviceKind::Phantom; }
  int threads() const { return threads_; }

  // Writes an operation of the compute lane into the trace. Only where recorder() is not null.
  TraceRecorder* recorder() const { return arena_.recorder(); }
  void record(const Work& work);
  // The operand of a trace that a tensor of this stream's arena is.
  TraceOperand operand_of(const Tensor& tensor, bool is_written) const;

  // An op that meets a bad value reports it, the first in row order, and goes on with a substitute.
  // Of all reports the first is kept, in device memory, until check_data() is called.
  void report(const DataFault& fault);
  bool has_data_fault() const { return data_fault_.has_value(); }
  // Waits for all operations; throws the Error of the first bad value since the last call.
  void check_data();

  // The CPU's own: the threads that operations run on.
  Team& team() { return team_; }

  // 64-byte aligned; contents are unspecified between ops. Only inside an op.
  std::span<std::byte> thread_scratch(int thread);
  std::span<std::byte> shared_scratch();

 private:
  friend class Access;

  Arena& arena_;
  int threads_;
  Team team_;
  Tensor scratch_;
  std::optional<DataFault> data_fault_;
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
