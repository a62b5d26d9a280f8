#include "comm/call.h"

#include <array>
#include <sstream>

#include "base/error.h"

namespace sextant {
namespace {

void write_parts(std::ostream& out, const SplitSizes& split_sizes) {
  if (split_sizes.is_even()) return;
  out << " in parts";
  for (const int64_t size : split_sizes.sizes()) out << ' ' << size;
}

}  // namespace

const char* name_of(Operation operation) {
  static constexpr std::array<const char*, kOperations> kNames = {
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "scatter",
      "gather",     "reduce",         "send",       "receive",    "barrier"};
  return kNames[static_cast<size_t>(operation)];
}

const char* name_of(ReduceOp reduce_op) {
  static constexpr std::array<const char*, 3> kNames = {"sum", "max", "min"};
  return kNames[static_cast<size_t>(reduce_op)];
}

Range SplitSizes::part(int64_t total, int ranks, int rank) const {
  if (is_even()) return even_part(total, ranks, rank);
  int64_t begin = 0;
  for (int i = 0; i < rank; ++i) begin += sizes_[static_cast<size_t>(i)];
  return {begin, begin + sizes_[static_cast<size_t>(rank)]};
}

// An all-gather sends the own part to all others, a reduce-scatter each of the others its part, an
// all-reduce does both: with equal parts the volume of a ring. The others send direct messages.
int64_t elements_sent(const Call& call, int rank, int ranks) {
  const auto own = [&] { return call.split_sizes.part(call.count, ranks, rank).size(); };
  const bool is_root = rank == call.root;
  switch (call.operation) {
    case Operation::AllReduce:
      return call.count + (ranks - 2) * own();
    case Operation::ReduceScatter:
    case Operation::AllToAll:
      return call.count - own();
    case Operation::AllGather:
      return (ranks - 1) * own();
    case Operation::Broadcast:
      return is_root ? (ranks - 1) * call.count : 0;
    case Operation::Scatter:
      return is_root ? call.count - own() : 0;
    case Operation::Gather:
      return is_root ? 0 : own();
    case Operation::Reduce:
      return is_root ? 0 : call.count;
    case Operation::Send:
      return call.count;
    case Operation::Receive:
    case Operation::Barrier:
      return 0;
  }
  return 0;
}

std::string to_string(const Call& call) {
  std::ostringstream out;
  out << name_of(call.operation);
  if (call.operation == Operation::Barrier) return out.str();
  if (call.operation == Operation::AllReduce || call.operation == Operation::ReduceScatter ||
      call.operation == Operation::Reduce)
    out << ' ' << name_of(call.reduce_op);
  out << " of " << call.count << ' ' << name_of(call.dtype);
  write_parts(out, call.split_sizes);
  if (call.operation == Operation::AllToAll) {
    out << " for " << call.received;
    write_parts(out, call.receive_split_sizes);
  }
  if (call.operation == Operation::ReduceScatter && call.into == Into::Add) out << ", added";
  switch (call.operation) {
    case Operation::Broadcast:
    case Operation::Scatter:
    case Operation::Receive:
      out << " from " << call.root;
      break;
    case Operation::Gather:
    case Operation::Reduce:
    case Operation::Send:
      out << " to " << call.root;
      break;
    default:
      break;
  }
  return out.str();
}

void check_split(const Call& call, const SplitSizes& split_sizes, int64_t total, int ranks,
                 const std::string& group) {
  if (split_sizes.is_even()) return;
  SXT_CHECK(static_cast<int>(split_sizes.sizes().size()) == ranks, Usage, to_string(call), " over ",
            group, ": ", split_sizes.sizes().size(), " parts for ", ranks, " ranks");
  int64_t sum = 0;
  for (const int64_t size : split_sizes.sizes()) {
    SXT_CHECK(size >= 0, Usage, to_string(call), " over ", group, ": a part of ", size);
    sum += size;
  }
  SXT_CHECK(sum == total, Usage, to_string(call), " over ", group, ": the parts have ", sum,
            " elements, not ", total);
}

}  // namespace sextant
