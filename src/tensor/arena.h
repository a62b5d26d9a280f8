#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tensor/device.h"
#include "tensor/tensor.h"

namespace sextant {

// What an allocation is for; every tensor names one.
enum class Category { Weights, Gradients, Optimizer, Activations, Workspace, Communication };
inline constexpr int kCategories = 6;
std::string_view name_of(Category category);

using CategoryBytes = std::array<int64_t, kCategories>;  // indexed by Category

// All memory of one rank. Tensors come from one region by best fit in address order, so the same
// sequence of calls always gives the same addresses: from the second step on no page is new and
// nothing is asked of the system. Counts are bytes of tensors, without rounding.
// Used by its rank's thread only; must outlive its tensors.
class Arena {
 public:
  // `limit` bounds the bytes of all living tensors; beyond it allocate throws Error(Memory). A
  // limit that no address space holds is Error(Config).
  Arena(Device device, int64_t limit);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Contents are unspecified.
  Tensor allocate(Category category, DType dtype, const Shape& shape);

  // From now on the whole memory that `tensor` is a view of counts under another category.
  void recategorize(const Tensor& tensor, Category category);

  Device device() const { return device_; }
  int64_t limit() const { return limit_; }
  int64_t current(Category category) const { return current_[static_cast<size_t>(category)]; }
  int64_t peak(Category category) const { return peak_[static_cast<size_t>(category)]; }
  int64_t current() const { return current_total_; }
  int64_t peak() const { return peak_total_; }  // of the sum, not the sum of peaks
  CategoryBytes peaks() const { return peak_; }
  int64_t reserved() const { return high_water_; }  // bytes of the region ever used
  int64_t allocations() const {
    return allocations_;
  }                    // calls that needed new memory, blocks or nodes
  void reset_peaks();  // peaks start again from what lives now

  Region& region() { return region_; }

 private:
  friend class ArenaDeleter;
  template <class T>
  friend class NodePool;
  struct Block {
    int64_t offset, size;
    int prev, next;  // neighbours by address, -1 at the ends
    bool free;
  };

  int find_block(int64_t size);
  int new_block(const Block& block);
  void release(int block, Category category, int64_t bytes);
  void merge_with_next(int block);
  void* take_node(size_t size);
  void return_node(void* node);

  Device device_;
  int64_t limit_;
  Region region_;
  std::vector<Block> blocks_;
  std::vector<int> unused_blocks_;
  int first_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> node_storage_;
  std::vector<void*> unused_nodes_;
  CategoryBytes current_{}, peak_{};
  int64_t current_total_ = 0, peak_total_ = 0, high_water_ = 0, allocations_ = 0, live_ = 0;
};

}  // namespace sextant
