#pragma once
#include <mutex>
#include <string>

namespace sextant {

// What a rank is at, in words, for the report of a hang: "F of stage 2, micro 3". Others may read
// it while the rank goes on.
class Activity {
 public:
  void set(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

}  // namespace sextant
