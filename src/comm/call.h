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

enum class Fold : uint8_t { Sum, Max, Min };
const char* name_of(Fold fold);

// What a reduce_scatter does with what its output holds.
enum class Into : uint8_t { Replace, Add };

// When a collective has to be done: before the call returns, or when its Pending is waited for.
enum class When : uint8_t { Now, Later };

// Whether a call counts as traffic of tensors, or as control: a norm, a count.
enum class Book : uint8_t { Traffic, Control };

// How a vector is cut over the ranks of a group: evenly (even_part), or into parts of given sizes,
// one for each rank in order. The sizes must live until the call is done.
class Cut {
 public:
  Cut() = default;
  explicit Cut(std::span<const int64_t> sizes) : sizes_(sizes) {}
  bool is_even() const { return sizes_.empty(); }
  std::span<const int64_t> sizes() const { return sizes_; }
  Range part(int64_t total, int ranks, int rank) const;

 private:
  std::span<const int64_t> sizes_;
};

// One call of a rank, in the form in which transports run it. Counts are in elements.
//                   in                        out
//   AllReduce       count                     count, may be in
//   ReduceScatter   count                     own part of it, may lie at its place in `in`
//   AllGather       own part                  count, `in` may lie at its place in it
//   AllToAll        send_cut of count         receive_cut of received; never the same memory
//   Broadcast       -                         count: the root's is copied to the others
//   Scatter         count, on the root        own part
//   Gather          own part                  count, on the root
//   Reduce          count                     count, on the root; may be in
//   Send            count, to root            -
//   Receive         -                         count, from root
struct Call {
  Call() {}  // member by member: a constant would be copied from or cleared as one block
  Operation operation = Operation::Barrier;
  DType dtype = DType::F32;
  Fold fold = Fold::Sum;
  Into into : 4 = Into::Replace;
  Book book : 4 = Book::Traffic;  // shares a byte: a call that is shown fits its cache lines
  int root = 0;                   // or the other end of Send and Receive
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  int64_t count = 0;     // of the whole vector; of what this rank sends in AllToAll
  int64_t received = 0;  // AllToAll: elements that come in
  Cut cut;               // of the whole vector; of what is sent in AllToAll
  Cut receive_cut;       // AllToAll
  // Set by the Communicator: the number of the collective in its group or of the message between
  // its two ends, from 1, the same on all ranks; and what the Recorder calls it.
  int64_t sequence = 0;
  int64_t event = 0;
};

// A call over so many elements; what else it needs is set by whoever makes it.
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

// Root, or the other end of a message.
inline bool has_root(Operation operation) {
  return operation >= Operation::Broadcast && operation <= Operation::Receive;
}

// Elements this rank sends to others in a call: what a network would carry.
int64_t elements_sent(const Call& call, int rank, int ranks);

// Error(Usage) unless the cut has a part for each of so many ranks, `total` elements in all.
void check_cut(const Call& call, const Cut& cut, int64_t total, int ranks,
               const std::string& group);

// "all_reduce sum of 4096 f32", "send of 12 i64 to 3"
std::string to_string(const Call& call);

}  // namespace sextant
