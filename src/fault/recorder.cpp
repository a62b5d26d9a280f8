#include "fault/recorder.h"

#include <algorithm>
#include <cmath>

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

int64_t Recorder::post(const Event& event) {
  const Guard guard(flag_);
  events_[static_cast<size_t>(posted_ % kEvents)] = event;
  return posted_++;
}

// An event that was already written over is no longer of interest.
void Recorder::begin(int64_t number, double now) {
  const Guard guard(flag_);
  if (posted_ - number <= kEvents) events_[static_cast<size_t>(number % kEvents)].begun = now;
}

void Recorder::end(int64_t number, double now) {
  const Guard guard(flag_);
  if (posted_ - number <= kEvents) events_[static_cast<size_t>(number % kEvents)].ended = now;
}

std::vector<Event> Recorder::last(int most) const {
  const Guard guard(flag_);
  const int64_t count = std::min<int64_t>({posted_, kEvents, most});
  std::vector<Event> events;
  for (int64_t number = posted_ - count; number < posted_; ++number)
    events.push_back(events_[static_cast<size_t>(number % kEvents)]);
  return events;
}

}  // namespace sextant
