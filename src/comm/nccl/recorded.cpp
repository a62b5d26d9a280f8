// Graphs: calls that are recorded once and run at every launch. Ranks agree on them on the host
// when they are recorded, not when they are launched: the launches are agreed on as a whole,
// before. An event in a graph cannot be asked whether the launch under way has passed it, so each
// call counts its end in pinned host memory, where the watch sees how far the launch has come.
#include <algorithm>

#include "base/error.h"
#include "comm/gpu_work.h"
#include "comm/nccl/connection.h"
#include "comm/nccl/rank.h"

namespace sextant::nccl {

void Rank::start_recording() {
  progress_thread_.wait_idle();
  const std::lock_guard lock(mutex_);
  for (const Recorded& one : recorded_) one.connection->recorded = 0;
  recorded_.clear();
}

// Calls of a connection are recorded by one thread at a time, in the order of its queue.
void Rank::add_recorded(Connection& connection, const Call& call) {
  count_on_gpu(connection.queue(), connection.counter());
  const std::lock_guard lock(mutex_);
  recorded_.push_back({&connection, without_split(call), ++connection.recorded});
}

void Rank::join_recorded(gpu::Queue& queue) {
  std::vector<Connection*> used;
  {
    const std::lock_guard lock(mutex_);
    for (const Recorded& one : recorded_)
      if (one.number == 1) used.push_back(one.connection);
  }
  for (Connection* connection : used) {
    Mark* end = take_mark(1);
    end->event.record(connection->queue());
    queue.wait_for(end->event);
    release(end);
  }
}

void Rank::start_launch() {
  if (has_failed()) check();
  const std::lock_guard lock(mutex_);
  if (launch_)
    let_go(launch_->done);  // the last one has ended, whether the watch has seen it or not
  launch_.reset();
  for (const Recorded& one : recorded_) one.connection->reset_counter();
}

void Rank::watch_launch(gpu::Queue& queue) {
  Mark* done = take_mark(1);
  done->event.record(queue);
  const std::lock_guard lock(mutex_);
  launch_ = {done, clock_.now()};
}

// The first call in the order of recording that has not ended. Once all have, what is left of the
// launch waits for no other rank.
std::string Rank::check_launch() {
  if (!launch_) return "";
  if (launch_->done->event.is_done()) {
    let_go(launch_->done);
    launch_.reset();
    return "";
  }
  int64_t counted = 0;
  const Recorded* first = nullptr;
  for (const Recorded& one : recorded_) {
    const bool has_ended = one.connection->counted() >= one.number;
    counted += has_ended ? 1 : 0;
    if (!has_ended && first == nullptr) first = &one;
  }
  if (counted != launch_->counted) last_end_ = clock_.now();
  launch_->counted = counted;
  if (first == nullptr) return "";
  const bool is_late = clock_.now() - std::max(launch_->issued, last_end_) > options_.timeout_s;
  if (!is_late && !host_.is_ending()) return "";
  return describe_late(*first->connection, first->call, is_late);
}

}  // namespace sextant::nccl
