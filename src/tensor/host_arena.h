#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/category.h"
#include "tensor/programs.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant {

namespace gpu {
class Event;
}

// Host memory of a rank beside its arena, for tensors that are copied to the device when they are
// needed (offload): a region of an unlinked file, whose pages the operating system may write out
// and drop, or pinned memory for a GPU. Addresses are planned as those of an Arena. Counts are
// bytes of tensors before alignment. Used by its rank's thread only; must outlive its tensors.
class HostArena {
 public:
  // Sizes and addresses only, for a phantom device: records all allocations, from which a plan is
  // made, or uses the addresses of a plan.
  explicit HostArena(std::shared_ptr<const ArenaPlan> plan = nullptr);
  // As much memory as the plan reserves. Error(Failure) if the disk of `directory` is full.
  HostArena(const std::string& directory, std::shared_ptr<const ArenaPlan> plan);
  // The same in pinned memory, for copies from and to this GPU. Error(Memory).
  HostArena(int gpu, std::shared_ptr<const ArenaPlan> plan);
  ~HostArena();
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  // Contents are unspecified, zeros where nothing was before.
  Tensor allocate(Category category, DType dtype, const Shape& shape);

  // Begin and end of a program with planned addresses.
  void begin(Program program) { programs_.begin(program); }
  void end() { programs_.end(); }

  int64_t peak(Category category) const { return peak_[static_cast<size_t>(category)]; }
  int64_t reserved() const { return plan_ ? plan_->reserved : programs_.resident(); }
  const ArenaRecord& record() const { return programs_.record(); }
  int64_t offset_of(const std::byte* address) const { return address - data_; }

 private:
  friend class HostCopying;
  struct Gpu;

  void release(const Programs::Place& place, Category category, int64_t bytes);

  std::shared_ptr<const ArenaPlan> plan_;
  Programs programs_;
  std::byte* data_ = nullptr;
  int64_t mapped_ = 0;        // bytes; 0 on a phantom device and for a GPU
  std::unique_ptr<Gpu> gpu_;  // for a GPU
  CategoryBytes current_{}, peak_{};
};

// Copies between a stream's arena and host memory, on the lane "copy" of the trace. A copy runs
// after the compute operations issued before it; compute operations issued later may run beside it,
// until await_copy. On the CPU a copy is done when the call returns; on a GPU it runs in a queue of
// the host arena.
struct HostCopy {
  int64_t op = -1;                   // in the trace; -1: not traced
  const gpu::Event* done = nullptr;  // on a GPU: recorded behind the copy, or behind a later one
};
HostCopy copy_to_device(Stream& stream, const HostArena& host, Tensor& to, const Tensor& from);
HostCopy copy_to_host_arena(Stream& stream, const HostArena& host, Tensor& to, const Tensor& from);
// Later compute operations run after this copy and those issued before it.
void await_copy(Stream& stream, const HostCopy& copy);

}  // namespace sextant
