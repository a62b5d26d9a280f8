#include "tensor/arena.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/parse.h"

namespace sextant {
namespace {

constexpr int64_t kAlignment = 64;
constexpr size_t kNodeBytes = 128;  // holds the control block of a shared_ptr with our deleter
constexpr int64_t kLargestLimit = int64_t{1} << 45;  // twice it still fits an address space

int64_t round_up(int64_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

// Twice the limit of address space: room for fragmentation, which costs no memory until touched.
int64_t region_bytes(int64_t limit) {
  SXT_CHECK(limit > 0 && limit <= kLargestLimit, Config, "a memory limit of ", limit,
            " bytes: from 1 to ", kLargestLimit, " is possible");
  return round_up(2 * limit);
}

}  // namespace

std::string_view name_of(Category category) {
  static constexpr std::array<std::string_view, kCategories> kNames = {
      "weights", "gradients", "optimizer", "activations", "workspace", "communication"};
  return kNames[static_cast<size_t>(category)];
}

// Control blocks of tensor handles come from the arena too, so a steady step asks nothing of the
// heap.
template <class T>
class NodePool {
 public:
  using value_type = T;
  explicit NodePool(Arena* arena) : arena_(arena) {}
  template <class U>
  NodePool(const NodePool<U>& other) : arena_(other.arena_) {}  // NOLINT: allocator conversion
  T* allocate(size_t count) { return static_cast<T*>(arena_->take_node(count * sizeof(T))); }
  void deallocate(T* node, size_t) { arena_->return_node(node); }
  template <class U>
  bool operator==(const NodePool<U>& other) const {
    return arena_ == other.arena_;
  }

  Arena* arena_;
};

class ArenaDeleter {
 public:
  ArenaDeleter(Arena* arena, int block, Category category, int64_t bytes)
      : arena_(arena), block_(block), category_(category), bytes_(bytes) {}
  void operator()(std::byte*) const { arena_->release(block_, category_, bytes_); }
  const Arena* arena() const { return arena_; }
  int64_t bytes() const { return bytes_; }
  Category exchange(Category category) { return std::exchange(category_, category); }

 private:
  Arena* arena_;
  int block_;
  Category category_;
  int64_t bytes_;
};

Arena::Arena(Device device, int64_t limit)
    : device_(device), limit_(limit), region_(device, region_bytes(limit)) {
  blocks_.push_back({0, region_.bytes(), -1, -1, true});
}

Arena::~Arena() {
  if (live_ == 0) return;
  std::fprintf(stderr, "arena destroyed while %lld tensors live\n", static_cast<long long>(live_));
  std::abort();
}

Tensor Arena::allocate(Category category, DType dtype, const Shape& shape) {
  const int64_t bytes = shape.elements() * size_of(dtype);
  SXT_CHECK(current_total_ + bytes <= limit_, Memory, "a ", name_of(category), " tensor ", shape,
            " of ", format_bytes(bytes), " does not fit: ", format_bytes(current_total_), " of ",
            format_bytes(limit_), " are in use");
  const int block = find_block(round_up(bytes));
  const auto index = static_cast<size_t>(category);
  current_[index] += bytes;
  current_total_ += bytes;
  peak_[index] = std::max(peak_[index], current_[index]);
  peak_total_ = std::max(peak_total_, current_total_);
  ++live_;
  std::byte* data = region_.data() + blocks_[static_cast<size_t>(block)].offset;
  return Tensor(dtype, shape,
                std::shared_ptr<std::byte>(data, ArenaDeleter(this, block, category, bytes),
                                           NodePool<std::byte>(this)));
}

void Arena::recategorize(const Tensor& tensor, Category category) {
  auto* deleter = std::get_deleter<ArenaDeleter>(tensor.handle());
  SXT_CHECK(deleter != nullptr && deleter->arena() == this, Internal, "a tensor ", tensor.shape(),
            " of another arena");
  current_[static_cast<size_t>(deleter->exchange(category))] -= deleter->bytes();
  const auto index = static_cast<size_t>(category);
  current_[index] += deleter->bytes();
  peak_[index] = std::max(peak_[index], current_[index]);
}

int Arena::find_block(int64_t size) {
  int best = -1;
  int64_t best_size = std::numeric_limits<int64_t>::max();
  for (int i = first_; i >= 0; i = blocks_[static_cast<size_t>(i)].next) {
    const Block& block = blocks_[static_cast<size_t>(i)];
    if (block.free && block.size >= size && block.size < best_size) {
      best = i;
      best_size = block.size;
    }
  }
  SXT_CHECK(best >= 0, Memory, "no free range of ", format_bytes(size), " in an arena of ",
            format_bytes(region_.bytes()));
  if (best_size > size) {
    Block& block = blocks_[static_cast<size_t>(best)];
    const Block rest{block.offset + size, block.size - size, best, block.next, true};
    block.size = size;
    const int rest_index = new_block(rest);
    blocks_[static_cast<size_t>(best)].next = rest_index;
    if (rest.next >= 0) blocks_[static_cast<size_t>(rest.next)].prev = rest_index;
  }
  Block& block = blocks_[static_cast<size_t>(best)];
  block.free = false;
  if (block.offset + size > high_water_) {
    high_water_ = block.offset + size;
    ++allocations_;
  }
  return best;
}

int Arena::new_block(const Block& block) {
  if (unused_blocks_.empty()) {
    ++allocations_;
    unused_blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back(block);
    return static_cast<int>(blocks_.size()) - 1;
  }
  const int index = unused_blocks_.back();
  unused_blocks_.pop_back();
  blocks_[static_cast<size_t>(index)] = block;
  return index;
}

void Arena::release(int index, Category category, int64_t bytes) {
  current_[static_cast<size_t>(category)] -= bytes;
  current_total_ -= bytes;
  --live_;
  Block& block = blocks_[static_cast<size_t>(index)];
  block.free = true;
  if (block.next >= 0 && blocks_[static_cast<size_t>(block.next)].free) merge_with_next(index);
  if (block.prev >= 0 && blocks_[static_cast<size_t>(block.prev)].free) merge_with_next(block.prev);
}

void Arena::merge_with_next(int index) {
  Block& block = blocks_[static_cast<size_t>(index)];
  const int gone = block.next;
  const Block& next = blocks_[static_cast<size_t>(gone)];
  block.size += next.size;
  block.next = next.next;
  if (block.next >= 0) blocks_[static_cast<size_t>(block.next)].prev = index;
  unused_blocks_.push_back(gone);
}

void* Arena::take_node(size_t size) {
  SXT_CHECK(size <= kNodeBytes, Internal, "a tensor handle needs ", size, " bytes, have ",
            kNodeBytes);
  if (unused_nodes_.empty()) {
    ++allocations_;
    node_storage_.push_back(std::make_unique<std::byte[]>(kNodeBytes));
    unused_nodes_.reserve(node_storage_.size());
    return node_storage_.back().get();
  }
  void* node = unused_nodes_.back();
  unused_nodes_.pop_back();
  return node;
}

void Arena::return_node(void* node) {
  unused_nodes_.push_back(node);
}

void Arena::reset_peaks() {
  peak_ = current_;
  peak_total_ = current_total_;
}

}  // namespace sextant
