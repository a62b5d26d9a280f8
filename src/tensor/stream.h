#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tensor/arena.h"
#include "tensor/data_fault.h"
#include "tensor/team.h"
#include "tensor/work.h"

namespace sextant {

namespace gpu {
class Queue;
class Staging;
}  // namespace gpu

// Whether ops may choose kernels of libraries whose last bits vary from run to run.
enum class Bits : uint8_t { MayVary, Repeat };

// An ordered queue of operations on a device, with its arena and scratch memory. On the CPU
// operations run inline on a team of threads. On a GPU they are issued to a CUDA stream and run
// later; what reads their results on the host waits for them. On a phantom device they are only
// recorded.
class Stream {
 public:
  // Scratch memory of kernels, allocated once; included in memory estimates.
  static constexpr int64_t kThreadScratch = int64_t{2} << 20;   // bytes per thread of a CPU
  static constexpr int64_t kSharedScratch = int64_t{16} << 20;  // bytes shared by all threads
  static constexpr int64_t kCudaScratch = int64_t{64} << 20;    // bytes on a GPU
  static constexpr int64_t kFaultBytes = 256;  // on a GPU: the DeviceFault, behind the scratch
  static constexpr int64_t scratch_bytes(int threads) {
    return kSharedScratch + threads * kThreadScratch;
  }
  // The same on any device, `threads` counting on CPUs only.
  static int64_t scratch_bytes(Device device, int threads) {
    return device.modelled() == DeviceKind::Cuda ? kCudaScratch + kFaultBytes
                                                 : scratch_bytes(threads);
  }

  // `threads`: of the CPU, or of the CPU that a phantom device stands for.
  Stream(Arena& arena, int threads);
  ~Stream();

  Arena& arena() { return arena_; }
  Device device() const { return arena_.device(); }
  bool is_phantom() const { return device().kind == DeviceKind::Phantom; }
  bool is_gpu() const { return gpu_ != nullptr; }
  int threads() const { return threads_; }
  // Before the first operation.
  void set_bits(Bits bits) { bits_ = bits; }
  Bits bits() const { return bits_; }

  // Adds an operation of the compute lane to the trace. Requires a recorder().
  TraceRecorder* recorder() const { return arena_.recorder(); }
  void record(const Work& work);
  // A tensor of this stream's arena as an operand in the trace.
  TraceOperand operand_of(const Tensor& tensor, bool is_written) const;

  // An op that meets bad values reports the first in row order and continues with a substitute. The
  // first report is kept, in device memory, until check_data().
  void report(const DataFault& fault);
  bool has_data_fault() const { return data_fault_.has_value(); }  // CPU only
  // synchronize(); throws the Error of the first bad value since the last call.
  void check_data();

  // Waits until all operations issued so far are done and what copy_to_host_later copies is there.
  // On a GPU this and copies to the host are the only calls that wait; it throws the Error of an
  // operation that failed. Nothing to do on other devices.
  void synchronize();

  // CPU only: the threads that run operations.
  Team& team() { return team_; }

  // GPU only.
  gpu::Queue& queue();
  gpu::Staging& staging();
  DeviceFault* device_fault();  // in device memory

  // Aligned to 64 bytes (256 on a GPU), for use inside an op; contents do not survive it.
  std::span<std::byte> thread_scratch(int thread);  // CPU only
  std::span<std::byte> shared_scratch();

 private:
  friend class Access;
  struct Gpu;

  Arena& arena_;
  int threads_;
  Bits bits_ = Bits::MayVary;
  Team team_;
  Tensor scratch_;
  std::unique_ptr<Gpu> gpu_;
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
