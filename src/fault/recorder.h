#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace sextant {

// One communication of a rank, as the hang report tells of it.
struct Event {
  const char* operation = "";  // a literal, "all_reduce"
  const char* type = "";       // a literal, "f32"
  std::array<char, 24> group{};
  int64_t sequence = 0;  // number of the call in its group
  int64_t elements = 0;
  double posted = 0, begun = 0, ended = 0;  // of Clock::now; 0: not yet
};

// "all_reduce #12 of 4096 f32 over dp: waiting for 3.2 s", "...: done 0.5 s ago", "...: not begun".
// `now` is that of the same Clock.
std::string to_string(const Event& event, double now);

// The last communications of one rank. The rank's thread and its courier may both write.
class Recorder {
 public:
  static constexpr int kEvents = 256;

  int64_t post(const Event& event);  // gives the event a number
  void begin(int64_t number, double now);
  void end(int64_t number, double now);
  // Oldest first, at most `most`.
  std::vector<Event> last(int most = kEvents) const;

 private:
  // Held for some nanoseconds at a time, in every call: spinning is cheaper than a mutex.
  class Guard {
   public:
    explicit Guard(std::atomic_flag& flag) : flag_(flag) {
      while (flag_.test_and_set(std::memory_order_acquire))
        while (flag_.test(std::memory_order_relaxed)) std::this_thread::yield();
    }
    ~Guard() { flag_.clear(std::memory_order_release); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    std::atomic_flag& flag_;
  };

  mutable std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
  std::array<Event, kEvents> events_{};
  int64_t posted_ = 0;
};

}  // namespace sextant
