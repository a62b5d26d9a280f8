#pragma once
#include <vector>

#include "base/clock.h"
#include "tensor/gpu.h"
#include "tensor/stream.h"
#include "trace/op_times.h"

namespace sextant {

// When the operations of a stream run on its GPU. While a trace is recorded every operation that
// opens an Access is marked before and after in the stream's queue, whose times are read when the
// step is done. A collective is timed from the call to its end; one that runs beside the stream
// while the stream waits for it, which is the part that is exposed.
class OperationTimes {
 public:
  // From now until destruction. Both must outlive this.
  OperationTimes(Stream& stream, const Clock& clock);
  ~OperationTimes();
  OperationTimes(const OperationTimes&) = delete;
  OperationTimes& operator=(const OperationTimes&) = delete;

  // Before the first operation of a trace. Waits for the GPU.
  void start();
  // Of the `operations` of the trace, by the clock; waits for the GPU.
  std::vector<OpTime> read(size_t operations);

  // By Access: operation `op` begins and ends. An Access inside of it, or one without a new
  // operation, changes nothing.
  void begin(const Access& access, uint32_t op);
  void end(const Access& access);
  // The same for operation `op` of another lane: it runs in `queue` between the two calls, or the
  // stream's queue waits for it.
  void begin_in(gpu::Queue& queue) { began_ = marks_.add(queue); }
  void end_in(gpu::Queue& queue, uint32_t op);

 private:
  struct Interval {
    uint32_t op;
    int begin, end;  // marks
  };

  gpu::Queue& queue_;
  const Clock& clock_;
  gpu::Marks marks_;
  double start_ = 0;   // the time of the first mark
  int64_t last_ = -1;  // operation that was timed last
  const Access* open_ = nullptr;
  int opened_ = 0, began_ = 0;  // marks
  std::vector<Interval> intervals_;
};

}  // namespace sextant
