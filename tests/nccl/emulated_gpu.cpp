// tensor/gpu.h and comm/gpu_work.h on the host, linked instead of those for CUDA: what comm/nccl
// does with streams, events and memory can then be tested on a machine without a GPU.
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/gpu_work.h"
#include "comm/reduce.h"
#include "nccl/emulated_gpu.h"
#include "tensor/gpu.h"

struct CUevent_st {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t recorded = 0, passed = 0;
};

namespace sextant::gpu {
namespace {

class EmulatedStream final : public CUstream_st {
 public:
  EmulatedStream() : thread_([this] { work(); }) {}
  ~EmulatedStream() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void push(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || !work_.empty(); });
      if (work_.empty()) return;
      const std::function<void()> next = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      next();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool ending_ = false;
  std::thread thread_;
};

std::mutex streams_mutex;
std::map<CUstream_st*, std::shared_ptr<EmulatedStream>> streams;  // all that exist

CUstream_st* make_stream() {
  auto made = std::make_shared<EmulatedStream>();
  const std::lock_guard lock(streams_mutex);
  streams[made.get()] = made;
  return made.get();
}

// Ends when its work is done.
void destroy(CUstream_st* stream) {
  std::shared_ptr<EmulatedStream> last;
  {
    const std::lock_guard lock(streams_mutex);
    last = std::move(streams[stream]);
    streams.erase(stream);
  }
}

void wait_until_passed(CUevent_st* event, int64_t number) {
  std::unique_lock lock(event->mutex);
  event->changed.wait(lock, [&] { return event->passed >= number; });
}

}  // namespace

std::string why_unusable(int) {
  return "";
}
int count() {
  return 1;
}
std::string identity(int) {
  return "emulated";
}
void select(int) {}
std::byte* allocate(int, int64_t bytes) {
  return static_cast<std::byte*>(
      std::aligned_alloc(256, static_cast<size_t>(bytes + 255) / 256 * 256));
}
// Waits for all work of all streams, as cudaFree does.
void release(int, std::byte* data) noexcept {
  std::vector<std::shared_ptr<EmulatedStream>> all;
  {
    const std::lock_guard lock(streams_mutex);
    for (const auto& [handle, stream] : streams) all.push_back(stream);
  }
  for (const std::shared_ptr<EmulatedStream>& stream : all) {
    CUevent_st end;
    stream->push([&end] {
      const std::lock_guard lock(end.mutex);
      end.passed = 1;
      end.changed.notify_all();
    });
    wait_until_passed(&end, 1);
  }
  std::free(data);
}
Memory memory_of(int) {
  return {int64_t{1} << 40, int64_t{1} << 40};
}

Event::Event(int) : handle_(new CUevent_st) {}
Event::~Event() {
  delete handle_;
}
void Event::record(Queue& queue) {
  const std::lock_guard lock(handle_->mutex);
  const int64_t number = ++handle_->recorded;
  queue.handle()->push([event = handle_, number] {
    const std::lock_guard inner(event->mutex);
    event->passed = std::max(event->passed, number);
    event->changed.notify_all();
  });
}
bool Event::is_done() const {
  const std::lock_guard lock(handle_->mutex);
  return handle_->passed >= handle_->recorded;
}

Queue::Queue(int index) : index_(index), handle_(make_stream()) {}
Queue::~Queue() {
  destroy(handle_);
}
void Queue::wait_for(const Event& event) {
  int64_t number = 0;
  {
    const std::lock_guard lock(event.handle_->mutex);
    number = event.handle_->recorded;
  }
  handle_->push([event = event.handle_, number] { wait_until_passed(event, number); });
}
void Queue::copy(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0) handle_->push([=] { std::memmove(to, from, static_cast<size_t>(bytes)); });
}
void Queue::fill_zero(std::byte* to, int64_t bytes) {
  if (bytes > 0) handle_->push([=] { std::memset(to, 0, static_cast<size_t>(bytes)); });
}
void Queue::synchronize() {
  ++waits_;
  Event end(index_);
  end.record(*this);
  synchronize(end);
}
void Queue::synchronize(const Event& event) {
  wait_until_passed(event.handle_, event.handle_->recorded);
  if (check_ != nullptr) (*check_)();
}

struct Staging::State {
  Queue& queue;
};
Staging::Staging(Queue& queue) : state_(new State{queue}) {}
Staging::~Staging() = default;
void Staging::upload(std::byte* to, std::span<const std::byte> from) {
  std::vector<std::byte> copy(from.begin(), from.end());
  state_->queue.handle()->push(
      [to, copy = std::move(copy)] { std::memcpy(to, copy.data(), copy.size()); });
}
void Staging::download(std::span<std::byte> to, const std::byte* from) {
  state_->queue.copy(to.data(), from, static_cast<int64_t>(to.size()));
  state_->queue.synchronize();
}
void Staging::download_later(std::span<std::byte> to, const std::byte* from) {
  state_->queue.copy(to.data(), from, static_cast<int64_t>(to.size()));
}
void Staging::deliver() {}

}  // namespace sextant::gpu

namespace sextant {

// Of one rank only: a group of one.
void work_on_gpu(gpu::Queue& queue, std::span<const Call* const> calls) {
  const Call& call = *calls[0];
  const int64_t bytes = call.operation == Operation::AllToAll ? call.received * size_of(call.dtype)
                                                              : call.count * size_of(call.dtype);
  if (call.operation == Operation::ReduceScatter && call.into == Into::Add) {
    queue.handle()->push([call] {
      const std::byte* in[] = {call.in};
      reduce_into(call.out, in, call.count, call.dtype, call.reduce_op, Into::Add);
    });
  } else if (call.in != nullptr && call.out != nullptr && call.in != call.out) {
    queue.copy(call.out, call.in, bytes);
  }
}

void fold_on_gpu(gpu::Queue& queue, std::byte* out, std::span<const std::byte* const> in,
                 int64_t count, DType dtype, ReduceOp reduce_op, Into into) {
  std::vector<const std::byte*> inputs(in.begin(), in.end());
  queue.handle()->push(
      [=, inputs = std::move(inputs)] { reduce_into(out, inputs, count, dtype, reduce_op, into); });
}

}  // namespace sextant
