#pragma once
#include <mutex>
#include <string>
#include <string_view>

namespace sextant {

// What a rank is doing, for hang reports.
struct Doing {
  std::string text;    // "F of stage 2, micro 3"; "" if unknown
  int waits_for = -1;  // world rank that it waits for; -1: none
};

// The current Doing of a rank: the rank sets it, any thread may read it.
class Activity {
 public:
  void set(std::string_view text, int waits_for = -1) {
    const std::lock_guard lock(mutex_);
    now_.text.assign(text);  // allocates only if longer than all texts before
    now_.waits_for = waits_for;
  }
  Doing now() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }

 private:
  mutable std::mutex mutex_;
  Doing now_;
};

}  // namespace sextant
