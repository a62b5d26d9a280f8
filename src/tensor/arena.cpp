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

constexpr size_t kNodeBytes = 128;  // fits the control block of a shared_ptr with our deleter
constexpr int64_t kLargestLimit = int64_t{1} << 45;  // twice it still fits an address space

int64_t region_bytes(Device device, int64_t limit) {
  SXT_CHECK(limit > 0 && limit <= kLargestLimit, Config, "a memory limit of ", limit,
            " bytes: from 1 to ", kLargestLimit, " is possible");
  return round_up(device.modelled() == DeviceKind::Cuda ? limit : 2 * limit, device.alignment());
}

}  // namespace

// Control blocks of tensor handles come from the arena too, so a step in steady state makes no heap
// allocation.
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
  ArenaDeleter(Arena* arena, const Programs::Place& place, Category category, int64_t bytes)
      : arena_(arena), place_(place), category_(category), bytes_(bytes) {}
  void operator()(std::byte*) const { arena_->release(place_, category_, bytes_); }
  const Arena* arena() const { return arena_; }
  int64_t bytes() const { return bytes_; }
  int64_t offset() const { return place_.offset; }
  Category exchange(Category category) { return std::exchange(category_, category); }

 private:
  Arena* arena_;
  Programs::Place place_;
  Category category_;
  int64_t bytes_;
};

Arena::Arena(Device device, int64_t limit)
    : device_(device),
      limit_(limit),
      region_(std::make_unique<Region>(device, region_bytes(device, limit))),
      best_fit_(region_->bytes()) {}

Arena::Arena(Device device, std::shared_ptr<const ArenaPlan> plan)
    : device_(device),
      limit_(plan->reserved),
      region_(std::make_unique<Region>(device, plan->reserved)),
      programs_(std::move(plan)) {}

Arena::Arena(Device phantom, Budget* budget)
    : device_(phantom),
      limit_(std::numeric_limits<int64_t>::max()),
      region_(std::make_unique<Region>(phantom, limit_)),
      programs_(std::in_place),
      budget_(budget) {
  SXT_CHECK(phantom.kind == DeviceKind::Phantom, Internal, "only a phantom device has no limit");
}

Arena::~Arena() {
  if (live_ == 0) return;
  std::fprintf(stderr, "arena destroyed while %lld tensors live\n", static_cast<long long>(live_));
  std::abort();
}

Tensor Arena::allocate(Category category, DType dtype, const Shape& shape) {
  count();
  const int64_t bytes = shape.elements() * size_of(dtype);
  SXT_CHECK(bytes <= limit_ - current_total_, Memory, "a ", name_of(category), " tensor ", shape,
            " of ", format_bytes(bytes), " does not fit: ", format_bytes(current_total_), " of ",
            format_bytes(limit_), " are in use");
  const int64_t taken = round_up(bytes, device_.alignment());
  const Programs::Place place = programs_ ? programs_->take(taken) : place_best(taken);
  const auto index = static_cast<size_t>(category);
  current_[index] += bytes;
  current_total_ += bytes;
  peak_[index] = std::max(peak_[index], current_[index]);
  peak_total_ = std::max(peak_total_, current_total_);
  ++live_;
  note(TraceMemory::Kind::Take, category, category, place.offset, bytes);
  return Tensor(dtype, shape,
                std::shared_ptr<std::byte>(region_->data() + place.offset,
                                           ArenaDeleter(this, place, category, bytes),
                                           NodePool<std::byte>(this)));
}

Programs::Place Arena::place_best(int64_t bytes) {
  const int block = best_fit_->take(bytes);
  SXT_CHECK(block >= 0, Memory, "no free range of ", format_bytes(bytes), " in an arena of ",
            format_bytes(region_->bytes()));
  return {best_fit_->offset(block), block, {}};
}

void Arena::recategorize(const Tensor& tensor, Category category) {
  auto* deleter = std::get_deleter<ArenaDeleter>(tensor.handle());
  SXT_CHECK(deleter != nullptr && deleter->arena() == this, Internal, "a tensor ", tensor.shape(),
            " of another arena");
  const Category from = deleter->exchange(category);
  current_[static_cast<size_t>(from)] -= deleter->bytes();
  const auto index = static_cast<size_t>(category);
  current_[index] += deleter->bytes();
  peak_[index] = std::max(peak_[index], current_[index]);
  note(TraceMemory::Kind::Move, from, category, deleter->offset(), deleter->bytes());
}

void Arena::release(const Programs::Place& place, Category category, int64_t bytes) {
  current_[static_cast<size_t>(category)] -= bytes;
  current_total_ -= bytes;
  --live_;
  note(TraceMemory::Kind::Free, category, category, place.offset, bytes);
  if (programs_)
    programs_->give_back(place);
  else
    best_fit_->give_back(place.index);
}

void Arena::note(TraceMemory::Kind kind, Category from, Category category, int64_t begin,
                 int64_t bytes) {
  if (recorder_ != nullptr) recorder_->memory({kind, category, from, 0, begin, bytes});
}

void Arena::begin(Program program) {
  if (programs_) programs_->begin(program);
}

void Arena::end() {
  if (programs_) programs_->end();
}

int64_t Arena::reserved() const {
  if (best_fit_) return best_fit_->high_water();
  return programs_->has_plan() ? limit_ : programs_->resident();
}

int64_t Arena::allocations() const {
  return growths_ + (best_fit_ ? best_fit_->growths() : 0);
}

void* Arena::take_node(size_t size) {
  SXT_CHECK(size <= kNodeBytes, Internal, "a tensor handle needs ", size, " bytes, have ",
            kNodeBytes);
  if (unused_nodes_.empty()) {
    ++growths_;
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
