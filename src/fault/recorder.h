#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <string>
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
  mutable std::mutex mutex_;
  std::array<Event, kEvents> events_{};
  int64_t posted_ = 0;
};

}  // namespace sextant
