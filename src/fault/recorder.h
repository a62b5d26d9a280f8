#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace sextant {

// One communication call of a rank, for hang reports.
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

// Flight recorder: the last communication calls of one rank. The rank's thread posts them; begin
// and end may come from another thread. It is on the path of every call, so it is lock-free: a
// reader skips entries that are being written. If an event ends exactly while its entry is reused,
// kEvents later, the end may be attributed to the new event.
class Recorder {
 public:
  static constexpr int kEvents = 256;

  int64_t post(const Event& event);  // returns the event's number; rank's thread only
  void begin(int64_t number, double now);
  void end(int64_t number, double now);
  // Oldest first, at most `most`.
  std::vector<Event> last(int most = kEvents) const;

 private:
  // An Event whose fields can be read while they are written.
  struct Entry {
    std::atomic<int64_t> number{-1};  // -1: being written
    std::atomic<const char*> operation{nullptr}, type{nullptr};
    std::array<std::atomic<uint64_t>, 3> group{};
    std::atomic<int64_t> sequence{0}, elements{0};
    std::atomic<double> posted{0}, begun{0}, ended{0};
  };
  Entry& entry(int64_t number) { return entries_[static_cast<size_t>(number) % kEvents]; }
  bool read(int64_t number, Event& event) const;  // false: overwritten or not yet written

  std::array<Entry, kEvents> entries_;
  std::atomic<int64_t> posted_{0};
};

// Inline, as they are part of every call.
// Each field is stored with release and loaded with acquire: a reader of a new field then also sees
// number = -1 or a later number.
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

// Does nothing if the entry was reused for a later event.
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
