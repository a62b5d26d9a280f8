#pragma once
#include <mutex>
#include <string>
#include <string_view>

namespace sextant {

// What a rank is at, for the report of a hang.
struct Doing {
  std::string text;    // "F of stage 2, micro 3"; "": nothing to tell
  int waits_for = -1;  // the rank of the world without which it cannot go on; -1: none
};

// The same while it changes: the rank sets it, others may read it.
class Activity {
 public:
  void set(std::string_view text, int waits_for = -1) {
    const std::lock_guard lock(mutex_);
    now_.text.assign(text);  // allocates only for a longer one than all before
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
