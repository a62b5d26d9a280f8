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

// An ordered queue of operations on a device, with its arena and scratch memory. On the CPU
// operations run inline on a team of threads; on a phantom device they are only recorded.
class Stream {
 public:
  // Scratch memory of kernels, allocated once; included in memory estimates.
  static constexpr int64_t kThreadScratch = int64_t{2} << 20;   // bytes per thread
  static constexpr int64_t kSharedScratch = int64_t{16} << 20;  // bytes shared by all threads
  static constexpr int64_t scratch_bytes(int threads) {
    return kSharedScratch + threads * kThreadScratch;
  }

  // `threads`: of the CPU, or of the CPU that a phantom device stands for.
  Stream(Arena& arena, int threads);

  Arena& arena() { return arena_; }
  Device device() const { return arena_.device(); }
  bool is_phantom() const { return device().kind == DeviceKind::Phantom; }
  int threads() const { return threads_; }

  // Adds an operation of the compute lane to the trace. Requires a recorder().
  TraceRecorder* recorder() const { return arena_.recorder(); }
  void record(const Work& work);
  // A tensor of this stream's arena as an operand in the trace.
  TraceOperand operand_of(const Tensor& tensor, bool is_written) const;

  // An op that meets bad values reports the first in row order and continues with a substitute. The
  // first report is kept, in device memory, until check_data().
  void report(const DataFault& fault);
  bool has_data_fault() const { return data_fault_.has_value(); }
  // Waits for all operations; throws the Error of the first bad value since the last call.
  void check_data();

  // CPU only: the threads that run operations.
  Team& team() { return team_; }

  // 64-byte aligned, for use inside an op; contents do not survive it.
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

// Scope in which the memory of the stream's arena may be accessed. Every op, collective and copy
// opens one; it does something on Guarded devices only.
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
