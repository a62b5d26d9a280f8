#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "comm/call.h"

namespace sextant {

// What a rank has sent.
struct Traffic {
  int64_t calls = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
  Traffic& operator+=(const Traffic& other) {
    calls += other.calls;
    elements += other.elements;
    bytes += other.bytes;
    return *this;
  }
  friend Traffic operator-(const Traffic& a, const Traffic& b) {
    return {a.calls - b.calls, a.elements - b.elements, a.bytes - b.bytes};
  }
  friend Traffic operator*(const Traffic& traffic, int64_t times) {
    return {traffic.calls * times, traffic.elements * times, traffic.bytes * times};
  }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

// Of the groups along an axis, or along several ("dp+shard").
struct AxisTraffic {
  std::array<char, 24> name{};  // ends with a zero
  std::array<Traffic, kOperations> operations{};
  std::string_view axis() const { return name.data(); }
  friend bool operator==(const AxisTraffic&, const AxisTraffic&) = default;
};

// Axes of a run at most.
inline constexpr size_t kMostAxes = 16;
// Seconds by axis, numbered as in TrafficTable::axes(), and by operation.
using AxisTimes = std::array<std::array<double, kOperations>, kMostAxes>;

// What a rank has sent, by axis and operation. Every step record has a copy, so copies take nothing
// from the heap.
class TrafficTable {
 public:
  std::span<const AxisTraffic> axes() const { return std::span(axes_).first(count_); }
  // Number of an axis in axes(); a new one is added.
  size_t axis(std::string_view name);

  Traffic& at(size_t axis, Operation operation) {
    return axes_[axis].operations[static_cast<size_t>(operation)];
  }
  Traffic of(Operation operation) const;                         // over all axes
  Traffic of(std::string_view axis, Operation operation) const;  // none for an unknown axis
  Traffic total() const;

  void reset();  // to zero; the axes stay
  void add(const TrafficTable& other, int64_t times);
  // Adds `times` times what was sent since `earlier`, a copy of this table.
  void repeat(const TrafficTable& earlier, int64_t times);
  friend bool operator==(const TrafficTable&, const TrafficTable&) = default;

 private:
  std::array<AxisTraffic, kMostAxes> axes_{};  // the first count_ are in use
  size_t count_ = 0;
};

// Calls f(axis, operation, traffic) where something was sent.
template <class F>
void for_each_sent(const TrafficTable& table, F&& f) {
  for (const AxisTraffic& axis : table.axes())
    for (int i = 0; i < kOperations; ++i)
      if (const Traffic& sent = axis.operations[static_cast<size_t>(i)]; sent.bytes > 0)
        f(axis, static_cast<Operation>(i), sent);
}

}  // namespace sextant
