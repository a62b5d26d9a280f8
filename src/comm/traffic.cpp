#include "comm/traffic.h"

#include <algorithm>

#include "base/error.h"

namespace sextant {

size_t TrafficTable::axis(std::string_view name) {
  const auto found = std::ranges::find(axes(), name, &AxisTraffic::axis);
  if (found != axes().end()) return static_cast<size_t>(found - axes().begin());
  SXT_CHECK(count_ < axes_.size(), Internal, "traffic of more than ", axes_.size(), " axes");
  AxisTraffic& added = axes_[count_];
  SXT_CHECK(name.size() < added.name.size(), Internal, "axis ", name, " has a name of more than ",
            added.name.size() - 1, " characters");
  name.copy(added.name.data(), name.size());
  return count_++;
}

Traffic TrafficTable::of(Operation operation) const {
  Traffic sum;
  for (const AxisTraffic& axis : axes()) sum += axis.operations[static_cast<size_t>(operation)];
  return sum;
}

Traffic TrafficTable::of(std::string_view axis, Operation operation) const {
  const auto found = std::ranges::find(axes(), axis, &AxisTraffic::axis);
  return found == axes().end() ? Traffic() : found->operations[static_cast<size_t>(operation)];
}

Traffic TrafficTable::total() const {
  Traffic sum;
  for (const AxisTraffic& axis : axes())
    for (const Traffic& one : axis.operations) sum += one;
  return sum;
}

void TrafficTable::reset() {
  for (AxisTraffic& axis : axes_) axis.operations = {};
}

void TrafficTable::add(const TrafficTable& other, int64_t times) {
  for (const AxisTraffic& added : other.axes()) {
    AxisTraffic& own = axes_[axis(added.axis())];
    for (size_t i = 0; i < own.operations.size(); ++i)
      own.operations[i] += added.operations[i] * times;
  }
}

void TrafficTable::repeat(const TrafficTable& earlier, int64_t times) {
  for (size_t i = 0; i < count_; ++i)
    for (size_t j = 0; j < axes_[i].operations.size(); ++j) {
      Traffic& now = axes_[i].operations[j];
      const Traffic before = i < earlier.count_ ? earlier.axes_[i].operations[j] : Traffic();
      now += (now - before) * times;
    }
}

}  // namespace sextant
