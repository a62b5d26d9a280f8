#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"

namespace sextant {

// A number of units that threads share. Taking more than are left throws Error(Config) with a
// prepared text; whether the sum of all takes exceeds it does not depend on the threads' order.
class Budget {
 public:
  Budget(int64_t units, std::string refusal) : left_(units), refusal_(std::move(refusal)) {}

  void take(int64_t units) {
    SXT_CHECK(left_.fetch_sub(units, std::memory_order_relaxed) >= units, Config, refusal_);
  }
  int64_t left() const { return left_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> left_;
  std::string refusal_;
};

}  // namespace sextant
