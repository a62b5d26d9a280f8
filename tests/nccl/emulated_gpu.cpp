// tensor/gpu.h and comm/gpu_work.h on the host, linked instead of those for CUDA: what comm/nccl
// does with streams, events and memory can then be tested on a machine without a GPU.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/gpu_work.h"
#include "comm/reduce.h"
#include "nccl/emulated_gpu.h"
#include "nccl/emulated_recording.h"
#include "tensor/gpu.h"

namespace sextant::gpu {
namespace {

thread_local int current_gpu = 0;
std::atomic<int> misplaced{0};
std::atomic<int64_t> looks{0}, memory{0};
std::mutex blocks_mutex;
std::map<std::byte*, int64_t> blocks;  // that are allocated

void check_current(int gpu) {
  if (current_gpu != gpu) ++misplaced;
}

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
    if (const std::shared_ptr<Recording> recording = recording_of(this)) {
      const std::lock_guard lock(recording->mutex);
      recording->add(this, [work = std::move(work)](Recording::Gates&) { work(); });
      return;
    }
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
void select(int index) {
  current_gpu = index;
}
std::byte* allocate(int index, int64_t bytes) {
  select(index);
  auto* made = static_cast<std::byte*>(
      std::aligned_alloc(256, static_cast<size_t>(bytes + 255) / 256 * 256));
  const std::lock_guard lock(blocks_mutex);
  blocks[made] = bytes;
  memory += bytes;
  return made;
}
// Waits for all work of all streams, as cudaFree does.
void release(int index, std::byte* data) noexcept {
  select(index);
  {
    const std::lock_guard lock(blocks_mutex);
    memory -= blocks[data];
    blocks.erase(data);
  }
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
std::byte* allocate_pinned(int index, int64_t bytes) {
  select(index);
  return static_cast<std::byte*>(std::calloc(1, static_cast<size_t>(bytes)));
}
void release_pinned(int, std::byte* data) noexcept {
  std::free(data);
}
Memory memory_of(int) {
  return {int64_t{1} << 40, int64_t{1} << 40};
}

// Those that select the GPU themselves are the ones of tensor/cuda that do.
Event::Event(int index) : handle_(new CUevent_st) {
  select(index);
  handle_->gpu = index;
}
Event::~Event() {
  delete handle_;
}
void Event::record(Queue& queue) {
  check_current(queue.index());
  const std::lock_guard lock(handle_->mutex);
  handle_->recording = recording_of(queue.handle());
  if (const std::shared_ptr<Recording>& recording = handle_->recording) {
    const std::lock_guard inside(recording->mutex);
    const size_t gate = handle_->gate = recording->gates++;
    recording->add(queue.handle(), [gate](Recording::Gates& gates) { gates.open(gate); });
    recording->gate_at[gate] = {queue.handle(), recording->works[queue.handle()]};
    return;
  }
  const int64_t number = ++handle_->recorded;
  queue.handle()->push([event = handle_, number] {
    const std::lock_guard inner(event->mutex);
    event->passed = std::max(event->passed, number);
    event->changed.notify_all();
  });
}
bool Event::is_done() const {
  ++looks;
  check_current(handle_->gpu);
  const std::lock_guard lock(handle_->mutex);
  check_cuda(!handle_->recording, "cudaEventQuery failed: cudaErrorCapturedEvent");
  return handle_->passed >= handle_->recorded;
}

Queue::Queue(int index) : index_(index), handle_(make_stream()) {
  select(index);
}
Queue::~Queue() {
  destroy(handle_);
}
void Queue::wait_for(const Event& event) {
  check_current(index_);
  int64_t number = 0;
  {
    const std::lock_guard lock(event.handle_->mutex);
    if (event.handle_->recording) return wait_in_graph(*event.handle_, handle_);
    number = event.handle_->recorded;
  }
  check_cuda(number == 0 || !recording_of(handle_),
             "cudaStreamWaitEvent failed: cudaErrorStreamCaptureIsolation");
  handle_->push([event = event.handle_, number] { wait_until_passed(event, number); });
}
void Queue::copy(std::byte* to, const std::byte* from, int64_t bytes) {
  select(index_);
  SXT_CHECK(bytes == 0 || (to != nullptr && from != nullptr), Failure,
            "CUDA: cudaMemcpyAsync failed: invalid argument (cudaErrorInvalidValue)");
  if (bytes > 0) handle_->push([=] { std::memmove(to, from, static_cast<size_t>(bytes)); });
}
void Queue::fill_zero(std::byte* to, int64_t bytes) {
  select(index_);
  if (bytes > 0) handle_->push([=] { std::memset(to, 0, static_cast<size_t>(bytes)); });
}
void Queue::synchronize() {
  check_cuda(!recording_of(handle_),
             "cudaStreamSynchronize failed: cudaErrorStreamCaptureUnsupported");
  ++waits_;
  Event end(index_);
  end.record(*this);
  synchronize(end);
}
void Queue::synchronize(const Event& event) {
  check_current(event.handle_->gpu);
  wait_until_passed(event.handle_, event.handle_->recorded);
  if (check_ != nullptr) (*check_)();
}

Marks::Marks(int index, int count) : index_(index) {
  for (int i = 0; i < count; ++i) events_.push_back(new CUevent_st);
}
Marks::~Marks() {
  for (CUevent_st* event : events_) delete event;
}
int Marks::add(Queue& queue) {
  if (used_ == static_cast<int>(events_.size())) events_.push_back(new CUevent_st);
  queue.handle()->push([event = events_[static_cast<size_t>(used_)]] {
    event->time = std::chrono::steady_clock::now();
  });
  return used_++;
}
double Marks::seconds_between(int first, int second) const {
  return std::chrono::duration<double>(events_[static_cast<size_t>(second)]->time -
                                       events_[static_cast<size_t>(first)]->time)
      .count();
}

struct Staging::State {
  Queue& queue;
};
Staging::Staging(Queue& queue) : state_(new State{queue}) {}
Staging::~Staging() = default;
void Staging::upload(std::byte* to, std::span<const std::byte> from) {
  select(state_->queue.index());
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

int emulated_gpu_misplaced() {
  return gpu::misplaced.load();
}
int64_t emulated_gpu_looks() {
  return gpu::looks.load();
}
int64_t emulated_gpu_memory() {
  return gpu::memory.load();
}

void count_on_gpu(gpu::Queue& queue, int64_t* counter) {
  gpu::select(queue.index());
  queue.handle()->push([counter] { ++std::atomic_ref(*counter); });
}

// Of one rank only: a group of one.
void work_on_gpu(gpu::Queue& queue, std::span<const Call* const> calls) {
  gpu::select(queue.index());
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
  gpu::select(queue.index());
  std::vector<const std::byte*> inputs(in.begin(), in.end());
  queue.handle()->push(
      [=, inputs = std::move(inputs)] { reduce_into(out, inputs, count, dtype, reduce_op, into); });
}

}  // namespace sextant
