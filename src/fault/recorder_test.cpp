#include "fault/recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace sextant {
namespace {

Event event_of(int64_t sequence) {
  Event event;
  event.operation = "all_reduce";
  event.type = "f32";
  event.group = {'d', 'p'};
  event.sequence = sequence;
  event.elements = 4096;
  event.posted = 1;
  return event;
}

TEST(Recorder, KeepsTheLastEventsOldestFirst) {
  Recorder recorder;
  EXPECT_TRUE(recorder.last().empty());
  for (int64_t i = 0; i < Recorder::kEvents + 10; ++i) EXPECT_EQ(recorder.post(event_of(i)), i);
  const std::vector<Event> all = recorder.last();
  ASSERT_EQ(all.size(), static_cast<size_t>(Recorder::kEvents));
  EXPECT_EQ(all.front().sequence, 10);
  EXPECT_EQ(all.back().sequence, Recorder::kEvents + 9);
  const std::vector<Event> two = recorder.last(2);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].sequence, Recorder::kEvents + 8);
}

TEST(Recorder, AnEventThatWasWrittenOverIsLeftAlone) {
  Recorder recorder;
  const int64_t first = recorder.post(event_of(0));
  for (int64_t i = 1; i <= Recorder::kEvents; ++i) recorder.post(event_of(i));
  recorder.begin(first, 5);
  recorder.end(first, 6);
  for (const Event& event : recorder.last()) EXPECT_EQ(event.ended, 0);
}

TEST(Recorder, SaysHowFarAnEventIs) {
  Recorder recorder;
  const int64_t number = recorder.post(event_of(12));
  EXPECT_EQ(to_string(recorder.last(1)[0], 3), "all_reduce #12 of 4096 f32 over dp: not begun");
  recorder.begin(number, 2);
  EXPECT_EQ(to_string(recorder.last(1)[0], 5.2),
            "all_reduce #12 of 4096 f32 over dp: waiting for 3.2 s");
  recorder.end(number, 6);
  EXPECT_EQ(to_string(recorder.last(1)[0], 6.5),
            "all_reduce #12 of 4096 f32 over dp: done 0.5 s ago");
}

TEST(Recorder, CallsMayEndOnAnotherThreadAndBeReadByAThird) {
  Recorder recorder;
  std::atomic<int64_t> last_posted{-1};
  std::atomic<bool> over{false};
  std::thread progress_thread([&] {
    for (int64_t number = 0; number < 1000; ++number) {
      while (last_posted < number) std::this_thread::yield();
      recorder.end(number, 2);
    }
  });
  std::thread reader([&] {
    while (!over)
      for (const Event& event : recorder.last()) {
        // Whatever is read is one event, not parts of two.
        ASSERT_EQ(event.elements, 2 * event.sequence);
        ASSERT_EQ(event.posted, static_cast<double>(event.sequence));
      }
  });
  for (int64_t i = 0; i < 1000; ++i) {
    Event event = event_of(i);
    event.elements = 2 * i;
    event.posted = static_cast<double>(i);
    last_posted = recorder.post(event);
  }
  progress_thread.join();
  over = true;
  reader.join();
  ASSERT_EQ(recorder.last().size(), static_cast<size_t>(Recorder::kEvents));
  EXPECT_EQ(recorder.last(1)[0].ended, 2);
}

}  // namespace
}  // namespace sextant
