#include "tensor/operation_times.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr int kMarks = 8192;  // made ahead: enough for most steps

}  // namespace

OperationTimes::OperationTimes(Stream& stream, const Clock& clock)
    : queue_(stream.queue()), clock_(clock), marks_(queue_.index(), kMarks) {
  queue_.time_operations(this);
}

OperationTimes::~OperationTimes() {
  queue_.time_operations(nullptr);
}

// The queue is empty, so the first mark passes as soon as it is issued: times are early by the
// microseconds that this takes.
void OperationTimes::start() {
  queue_.synchronize();
  marks_.reset();
  intervals_.clear();
  last_ = -1;
  open_ = nullptr;
  start_ = clock_.now();
  marks_.add(queue_);
}

std::vector<OpTime> OperationTimes::read(size_t operations) {
  queue_.synchronize();
  std::vector<OpTime> times(operations);
  for (const Interval& interval : intervals_) {
    if (interval.op >= operations || times[interval.op].is_known()) continue;
    const double begin = start_ + marks_.seconds_between(0, interval.begin);
    times[interval.op] = {begin, begin + marks_.seconds_between(interval.begin, interval.end)};
  }
  return times;
}

void OperationTimes::begin(const Access& access, uint32_t op) {
  if (open_ != nullptr || static_cast<int64_t>(op) <= last_) return;
  last_ = op;
  open_ = &access;
  opened_ = marks_.add(queue_);
}

void OperationTimes::end_in(gpu::Queue& queue, uint32_t op) {
  intervals_.push_back({op, began_, marks_.add(queue)});
  last_ = std::max(last_, static_cast<int64_t>(op));
}

void OperationTimes::end(const Access& access) {
  if (open_ != &access) return;
  open_ = nullptr;
  intervals_.push_back({static_cast<uint32_t>(last_), opened_, marks_.add(queue_)});
}

}  // namespace sextant
