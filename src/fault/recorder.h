#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
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

// The last communications of one rank. Its thread posts them; they may begin and end on another.
// Every call of a rank is written down here twice, so nothing is locked: a reader leaves out what
// is being written, and an end that comes in the very moment in which its event is written over,
// kEvents later, may be told of the new one.
class Recorder {
 public:
  static constexpr int kEvents = 256;

  int64_t post(const Event& event);  // gives the event a number; by the rank's thread only
  void begin(int64_t number, double now);
  void end(int64_t number, double now);
  // Oldest first, at most `most`.
  std::vector<Event> last(int most = kEvents) const;

 private:
  // An Event of which every part can be read while it is written.
  struct Entry {
    std::atomic<int64_t> number{-1};  // -1: being written
    std::atomic<const char*> operation{nullptr}, type{nullptr};
    std::array<std::atomic<uint64_t>, 3> group{};
    std::atomic<int64_t> sequence{0}, elements{0};
    std::atomic<double> posted{0}, begun{0}, ended{0};
  };
  Entry& entry(int64_t number) { return entries_[static_cast<size_t>(number) % kEvents]; }
  bool read(int64_t number, Event& event) const;  // false: no longer, or not yet, there

  std::array<Entry, kEvents> entries_;
  std::atomic<int64_t> posted_{0};
};

// These are part of every call, so they are here to be inlined.
// Each part is released and acquired on its own: whoever reads a new one sees, in `number`, at
// least that the entry was being written.
inline int64_t Recorder::post(const Event& event) {
  const int64_t number = posted_.load(std::memory_order_relaxed);
  constexpr auto kRelease = std::memory_order_release;
  Entry& to = entry(number);
  to.number.store(-1, std::memory_order_relaxed);
  to.operation.store(event.operation, kRelease);
  to.type.store(event.type, kRelease);
  std::array<uint64_t, 3> group;
  static_assert(sizeof group == sizeof event.group);
  std::memcpy(group.data(), event.group.data(), sizeof group);
  for (size_t i = 0; i < group.size(); ++i) to.group[i].store(group[i], kRelease);
  to.sequence.store(event.sequence, kRelease);
  to.elements.store(event.elements, kRelease);
  to.posted.store(event.posted, kRelease);
  to.begun.store(event.begun, kRelease);
  to.ended.store(event.ended, kRelease);
  to.number.store(number, kRelease);
  posted_.store(number + 1, kRelease);
  return number;
}

// An event that was already written over is no longer of interest.
inline void Recorder::begin(int64_t number, double now) {
  Entry& to = entry(number);
  if (to.number.load(std::memory_order_relaxed) == number)
    to.begun.store(now, std::memory_order_release);
}

inline void Recorder::end(int64_t number, double now) {
  Entry& to = entry(number);
  if (to.number.load(std::memory_order_relaxed) == number)
    to.ended.store(now, std::memory_order_release);
}

}  // namespace sextant
