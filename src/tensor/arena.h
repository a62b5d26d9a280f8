#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/budget.h"
#include "base/category.h"
#include "tensor/best_fit.h"
#include "tensor/device.h"
#include "tensor/programs.h"
#include "tensor/tensor.h"
#include "trace/recorder.h"

namespace sextant {

// All memory of one rank: one region from which tensors are allocated. Counts are bytes of tensors
// before alignment. Used by its rank's thread only; must outlive its tensors.
class Arena {
 public:
  // Allocates by best fit. `limit` bounds the bytes of all live tensors; beyond it allocate throws
  // Error(Memory). Reserves twice the limit of address space for fragmentation, which costs no
  // memory until touched; on a GPU, where it would, just the limit. A limit too large for the
  // address space is Error(Config).
  Arena(Device device, int64_t limit);
  // Uses planned addresses, in exactly as much memory as the plan reserves. An allocation that is
  // not in the plan is Error(Internal).
  Arena(Device device, std::shared_ptr<const ArenaPlan> plan);
  // For a phantom device: records all allocations (see record()), from which a plan is made. Every
  // allocation and every operation takes a unit of the budget; null: no limit.
  explicit Arena(Device phantom, Budget* budget = nullptr);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Contents are unspecified.
  Tensor allocate(Category category, DType dtype, const Shape& shape);

  // Counts the whole allocation behind `tensor` under another category from now on.
  void recategorize(const Tensor& tensor, Category category);

  // Begin and end of a program with planned addresses; no effect without a plan or record.
  void begin(Program program);
  void end();
  // While recording: see Programs.
  void begin_cycle() { programs_->begin_cycle(); }
  void leave_out(int cycles) { programs_->leave_out(cycles); }

  Device device() const { return device_; }
  int64_t limit() const { return limit_; }
  int64_t current(Category category) const { return current_[static_cast<size_t>(category)]; }
  int64_t peak(Category category) const { return peak_[static_cast<size_t>(category)]; }
  int64_t current() const { return current_total_; }
  int64_t peak() const { return peak_total_; }  // of the sum, not the sum of peaks
  CategoryBytes peaks() const { return peak_; }
  // Bytes of the region in use: all of the plan, or the high-water mark of best fit.
  int64_t reserved() const;
  int64_t allocations() const;  // calls that needed new memory, blocks or nodes
  void reset_peaks();           // to the current bytes
  const ArenaRecord& record() const { return programs_->record(); }

  // Counts an operation of a phantom device in the budget.
  void count() {
    if (budget_ == nullptr || ++counted_ < kCountedAtOnce) return;
    counted_ = 0;
    budget_->take(kCountedAtOnce);
  }

  Region& region() { return *region_; }

  // Records the trace of this arena and its streams; null: none is recorded.
  TraceRecorder* recorder() const { return recorder_; }
  void set_recorder(TraceRecorder* recorder) { recorder_ = recorder; }
  // Offset of an address in the region.
  int64_t offset_of(const std::byte* address) const { return address - region_->data(); }

 private:
  friend class ArenaDeleter;
  template <class T>
  friend class NodePool;

  static constexpr int kCountedAtOnce = 64;  // threads share a budget

  void release(const Programs::Place& place, Category category, int64_t bytes);
  Programs::Place place_best(int64_t bytes);
  void note(TraceMemory::Kind kind, Category from, Category category, int64_t begin, int64_t bytes);
  void* take_node(size_t size);
  void return_node(void* node);

  Device device_;
  int64_t limit_;
  std::unique_ptr<Region> region_;
  std::optional<BestFit> best_fit_;
  std::optional<Programs> programs_;  // exactly one of the two is set
  TraceRecorder* recorder_ = nullptr;
  Budget* budget_ = nullptr;
  int counted_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> node_storage_;
  std::vector<void*> unused_nodes_;
  CategoryBytes current_{}, peak_{};
  int64_t current_total_ = 0, peak_total_ = 0, growths_ = 0, live_ = 0;
};

}  // namespace sextant
