#pragma once
// Memory, queues and events of an NVIDIA GPU, without CUDA's headers. cuda/ implements them. In a
// build without CUDA (no_cuda/) none can be made: constructors throw Error(Config).
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct CUevent_st;
struct CUgraphExec_st;
struct CUstream_st;

namespace sextant {
class OperationTimes;
}

namespace sextant::gpu {

// "" when GPU `index` can be used; otherwise why not: "No NVIDIA GPU", this build has no CUDA, ...
std::string why_unusable(int index);

int count();                      // GPUs that CUDA_VISIBLE_DEVICES leaves; 0 without CUDA
std::string identity(int index);  // of the hardware, the same in all processes of a host
void select(int index);           // CUDA's current device of this thread

// Device memory. Error(Memory) with the bytes asked for and free.
std::byte* allocate(int index, int64_t bytes);
void release(int index, std::byte* data) noexcept;

// Host memory that the GPU copies from and to, and its kernels access, by the same address; zeros.
// Error(Memory) with the bytes asked for.
std::byte* allocate_pinned(int index, int64_t bytes);
void release_pinned(int index, std::byte* data) noexcept;

struct Memory {
  int64_t free = 0, total = 0;  // bytes
};
Memory memory_of(int index);

class Queue;

// A point in the order of a queue, for which other queues can wait. Can be recorded again: a wait
// is for the point recorded last when it is issued.
class Event {
 public:
  explicit Event(int index);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(Queue& queue);
  bool is_done() const;  // the work before the point recorded last is done, or none was recorded

 private:
  friend class Queue;
  [[maybe_unused]] CUevent_st* handle_ = nullptr;  // unused without CUDA
};

// An ordered queue of work on a GPU (a CUDA stream), independent of all others. Any thread may use
// it. None of these calls waits for the work, except synchronize.
class Queue {
 public:
  explicit Queue(int index);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  int index() const { return index_; }  // of the GPU
  CUstream_st* handle() const { return handle_; }

  // Later work runs after the event.
  void wait_for(const Event& event);
  void copy(std::byte* to, const std::byte* from, int64_t bytes);  // device or pinned memory
  void fill_zero(std::byte* to, int64_t bytes);
  // The host waits for all work so far, or for the event. Throws the error of work that failed.
  void synchronize();
  void synchronize(const Event& event);
  // Called after every wait of the host, before the error of failed work is thrown: a transport
  // whose kernels wait for peers says here that they were aborted. Null: nothing.
  void check_after_waits(const std::function<void()>* check) { check_ = check; }
  // How often the host has waited.
  int64_t waits() const { return waits_.load(); }
  // Where the operations of the queue's stream are timed; null: nowhere.
  void time_operations(OperationTimes* times) { times_ = times; }
  OperationTimes* times() const { return times_; }
  // Whether a Graph records what is issued, so that nothing runs. Set by Graph.
  void set_recording(bool is_recording) { is_recording_ = is_recording; }
  bool is_recording() const { return is_recording_; }

 private:
  int index_;
  CUstream_st* handle_ = nullptr;
  bool is_recording_ = false;
  std::atomic<int64_t> waits_{0};
  const std::function<void()>* check_ = nullptr;
  OperationTimes* times_ = nullptr;
};

// Points in the order of queues of one GPU, at which the device notes the time (CUDA events). They
// are made ahead and used again after a reset.
class Marks {
 public:
  Marks(int index, int count);
  ~Marks();
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  // Behind the work of the queue so far; its number. Made when all are in use.
  int add(Queue& queue);
  // Both must have been passed. CUDA's resolution is half a microsecond.
  double seconds_between(int first, int second) const;
  void reset() { used_ = 0; }

 private:
  [[maybe_unused]] int index_;
  int used_ = 0;
  std::vector<CUevent_st*> events_;
};

// Copies between host memory and a GPU, through pinned buffers of fixed size.
class Staging {
 public:
  // The queue in which the copies take place; must outlive this.
  explicit Staging(Queue& queue);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // `from` may be changed when this returns. Waits only for room in the ring of buffers.
  void upload(std::byte* to, std::span<const std::byte> from);
  // Waits for the copy.
  void download(std::span<std::byte> to, const std::byte* from);
  // Starts a copy that `deliver` completes after the queue was synchronized. `to` must live until
  // then. Falls back to `download` when there is no room left.
  void download_later(std::span<std::byte> to, const std::byte* from);
  void deliver();

  // For Graph. Copies between these calls are recorded with the queue's work.
  void start_recording();
  void stop_recording();
  // Recorded uploads take what the host memory they came from holds now, and `deliver` completes
  // the recorded downloads.
  void repeat_recorded();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Work of a queue that is recorded once and launched many times (a CUDA graph). The host memory of
// its copies must outlive it, and so must all device memory it uses. Other queues take part from
// their first wait for an event of the recorded one until that one waits for them: it must wait for
// the end of all. Events of recorded work cannot be asked whether they are done, nor waited for by
// other work, until they are recorded again; recorded work cannot wait for events from before.
class Graph {
 public:
  Graph(Queue& queue, Staging& staging) : queue_(queue), staging_(staging) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Records the work that f issues to the queue, without running it. f must not wait for the GPU.
  template <class F>
  void record(F&& f) {
    begin();
    try {
      f();
    } catch (...) {
      give_up();
      throw;
    }
    end();
  }
  // Runs it with the present values of the host memory that uploads come from.
  void launch();

 private:
  void begin();
  void end();
  void give_up() noexcept;

  // Unused without CUDA.
  [[maybe_unused]] Queue& queue_;
  [[maybe_unused]] Staging& staging_;
  [[maybe_unused]] CUgraphExec_st* handle_ = nullptr;
};

}  // namespace sextant::gpu
