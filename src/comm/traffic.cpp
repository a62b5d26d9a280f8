#include "comm/traffic.h"

#include <algorithm>

namespace sextant {

size_t TrafficTable::axis(std::string_view name) {
  const auto found = std::ranges::find(axes_, name, &AxisTraffic::axis);
  if (found != axes_.end()) return static_cast<size_t>(found - axes_.begin());
  axes_.push_back({std::string(name)});
  return axes_.size() - 1;
}

Traffic TrafficTable::of(Operation operation) const {
  Traffic sum;
  for (const AxisTraffic& axis : axes_) sum += axis.operations[static_cast<size_t>(operation)];
  return sum;
}

Traffic TrafficTable::of(std::string_view axis, Operation operation) const {
  const auto found = std::ranges::find(axes_, axis, &AxisTraffic::axis);
  return found == axes_.end() ? Traffic() : found->operations[static_cast<size_t>(operation)];
}

Traffic TrafficTable::total() const {
  Traffic sum;
  for (const AxisTraffic& axis : axes_)
    for (const Traffic& one : axis.operations) sum += one;
  return sum;
}

void TrafficTable::reset() {
  for (AxisTraffic& axis : axes_) axis.operations = {};
}

void TrafficTable::add(const TrafficTable& other, int64_t times) {
  for (const AxisTraffic& added : other.axes_) {
    AxisTraffic& own = axes_[axis(added.axis)];
    for (size_t i = 0; i < own.operations.size(); ++i)
      own.operations[i] += added.operations[i] * times;
  }
}

void TrafficTable::repeat(const TrafficTable& earlier, int64_t times) {
  for (size_t i = 0; i < axes_.size(); ++i)
    for (size_t j = 0; j < axes_[i].operations.size(); ++j) {
      Traffic& now = axes_[i].operations[j];
      const Traffic before = i < earlier.axes_.size() ? earlier.axes_[i].operations[j] : Traffic();
      now += (now - before) * times;
    }
}

}  // namespace sextant
