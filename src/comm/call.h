#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/range.h"

namespace sextant {

enum class Operation : uint8_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Broadcast,
  Scatter,
  Gather,
  Reduce,
  Send,
  Receive,
  Barrier,
};
inline constexpr int kOperations = 11;
const char* name_of(Operation operation);  // "all_reduce"

enum class ReduceOp : uint8_t { Sum, Max, Min };
const char* name_of(ReduceOp reduce_op);

// Whether reduce_scatter overwrites its output or accumulates into it.
enum class Into : uint8_t { Replace, Add };

// In the order of the rank's stream (on the CPU: done when the call returns), or beside it until
// Pending::wait.
enum class When : uint8_t { Now, Later };

// Whether a call is counted as tensor traffic or as control traffic (a norm, a count).
enum class TrafficClass : uint8_t { Tensor, Control };

// What a call moves: its data, or, for a transport whose data moves on devices, nothing: the ranks
// only meet on the host and agree on the call (Communicator::meet).
enum class Moves : uint8_t { Data, Nothing };

// What a sender tells the receiver when the two meet.
inline constexpr int64_t kNoteBytes = 128;

// How a vector is split over the ranks of a group: evenly (even_part), or into parts of given
// sizes, one per rank in rank order. The sizes must stay alive until the call is done.
class SplitSizes {
 public:
  SplitSizes() = default;
  explicit SplitSizes(std::span<const int64_t> sizes) : sizes_(sizes) {}
  bool is_even() const { return sizes_.empty(); }
  std::span<const int64_t> sizes() const { return sizes_; }
  Range part(int64_t total, int ranks, int rank) const;

 private:
  std::span<const int64_t> sizes_;
};

class Stream;
namespace gpu {
class Event;
}

// One call of a rank as transports get it. Counts are in elements.
//                   in                        out
//   AllReduce       count                     count; may be `in`
//   ReduceScatter   count                     own part; may be that part of `in`
//   AllGather       own part                  count; `in` may be the own part of it
//   AllToAll        count, in split_sizes       received, in receive_split_sizes; not `in`
//   Broadcast       -                         count; read on the root, written elsewhere
//   Scatter         count, on the root        own part
//   Gather          own part                  count, on the root
//   Reduce          count                     count, on the root; may be `in`
//   Send            count, to root            -
//   Receive         -                         count, from root
struct Call {
  Call() {}  // not defaulted: compilers then initialize by one slower block copy or clear
  Operation operation = Operation::Barrier;
  DType dtype = DType::F32;
  ReduceOp reduce_op = ReduceOp::Sum;
  Into into : 4 = Into::Replace;
  // These share a byte, so that a Call fits its cache lines.
  TrafficClass traffic : 2 = TrafficClass::Tensor;
  Moves moves : 2 = Moves::Data;
  int root = 0;  // or the peer of Send and Receive
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  int64_t count = 0;               // of the whole vector; AllToAll: sent by this rank
  int64_t received = 0;            // AllToAll: received by this rank
  SplitSizes split_sizes;          // of `count`
  SplitSizes receive_split_sizes;  // of `received`
  // In the memory of a GPU; null: host memory. `stream` is the rank's, in whose order the call
  // belongs. It can start after `ready` (inputs written, outputs no longer read) and, if set, after
  // `after` (an earlier call that it follows).
  Stream* stream = nullptr;
  const gpu::Event* ready = nullptr;
  const gpu::Event* after = nullptr;
  // Set by the Communicator. `sequence`: number of the collective in its group, or of the message
  // between its two ranks, from 1, the same on all ranks. `event`: its number in the Recorder.
  int64_t sequence = 0;
  int64_t event = 0;
};

// A call over `count` elements; the caller sets the remaining fields.
inline Call call_of(Operation operation, DType dtype, int64_t count) {
  Call call;
  call.operation = operation;
  call.dtype = dtype;
  call.count = count;
  return call;
}

inline bool is_message(Operation operation) {
  return operation == Operation::Send || operation == Operation::Receive;
}

// Whether Call::root is used: as the root, or as the peer of a message.
inline bool has_root(Operation operation) {
  return operation >= Operation::Broadcast && operation <= Operation::Receive;
}

// Bytes that a message moves on the host.
inline int64_t message_bytes(const Call& call) {
  return call.moves == Moves::Data ? call.count * size_of(call.dtype) : kNoteBytes;
}

// Elements this rank sends to other ranks in a call.
int64_t elements_sent(const Call& call, int rank, int ranks);

// Error(Usage) unless split_sizes has one part per rank, `total` elements together.
void check_split(const Call& call, const SplitSizes& split_sizes, int64_t total, int ranks,
                 const std::string& group);

// "all_reduce sum of 4096 f32", "send of 12 i64 to 3"
std::string to_string(const Call& call);

}  // namespace sextant
