#include "fault/recorder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace sextant {

std::string to_string(const Event& event, double now) {
  const std::string text = concat(event.operation, " #", event.sequence, " of ", event.elements,
                                  " ", event.type, " over ", event.group.data(), ": ");
  const auto tenths = [](double seconds) { return std::round(seconds * 10) / 10; };
  if (event.ended > 0) return text + concat("done ", tenths(now - event.ended), " s ago");
  if (event.begun > 0) return text + concat("waiting for ", tenths(now - event.begun), " s");
  return text + "not begun";
}

bool Recorder::read(int64_t number, Event& event) const {
  constexpr auto kAcquire = std::memory_order_acquire;
  const Entry& from = entries_[static_cast<size_t>(number % kEvents)];
  if (from.number.load(kAcquire) != number) return false;
  event.operation = from.operation.load(kAcquire);
  event.type = from.type.load(kAcquire);
  std::array<uint64_t, 3> group;
  for (size_t i = 0; i < group.size(); ++i) group[i] = from.group[i].load(kAcquire);
  std::memcpy(event.group.data(), group.data(), sizeof group);
  event.sequence = from.sequence.load(kAcquire);
  event.elements = from.elements.load(kAcquire);
  event.posted = from.posted.load(kAcquire);
  event.begun = from.begun.load(kAcquire);
  event.ended = from.ended.load(kAcquire);
  return from.number.load(kAcquire) == number;
}

std::vector<Event> Recorder::last(int most) const {
  const int64_t posted = posted_.load(std::memory_order_acquire);
  std::vector<Event> events;
  Event event;
  for (int64_t number = posted - std::min<int64_t>({posted, kEvents, most}); number < posted;
       ++number)
    if (read(number, event)) events.push_back(event);
  return events;
}

}  // namespace sextant
