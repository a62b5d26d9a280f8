#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/category.h"
#include "base/dtype.h"

namespace sextant {

// What one rank did, or would do: operations and messages in the order in which they were issued,
// and the memory they needed. Without times. A phantom device and a real one that run the same
// program record the same trace.

// A tensor that an operation reads or writes.
struct TraceOperand {
  static constexpr int kMaxDims = 5;

  int64_t begin = 0, end = 0;  // bytes of the rank's arena
  std::array<int64_t, kMaxDims> shape{};
  uint8_t dims = 0;
  DType dtype = DType::F32;
  bool is_written = false;  // else it is read; what is read and written is listed twice
  friend bool operator==(const TraceOperand&, const TraceOperand&) = default;
};

// What an operation is part of.
struct TraceScope {
  int32_t layer = -1;     // of the model; -1: none
  int32_t micro = -1;     // micro-batch; -1: none
  const char* pass = "";  // a literal: "forward", "backward", "optimizer"
};

// A queue of a rank: its operations run one after another. Operations of different lanes are
// ordered by waits alone.
struct TraceLane {
  // Messages have a lane for each direction and peer, as transports keep no other order among them.
  enum class Kind : uint8_t { Compute, Collective, Send, Receive };

  std::string name;
  Kind kind = Kind::Compute;
  std::string group = {};       // of ranks; its members know it by the same name
  std::vector<int> ranks = {};  // of the world, those of the group in its order
  friend bool operator==(const TraceLane&, const TraceLane&) = default;
};

struct TraceOp {
  const char* name = "";  // a literal: "matmul", "all_gather"
  int32_t lane = 0;
  TraceScope scope = {};
  uint32_t operands = 0, operands_end = 0;  // in Trace::operands
  uint32_t waits = 0, waits_end = 0;        // in Trace::waits
  double flops = 0;
  int64_t read = 0, written = 0;  // bytes of memory
  int64_t sent = 0;               // elements that leave this rank
  DType sent_as = DType::F32;     // type of those
  int32_t peer = -1;              // other end of a message, or root, in its group; -1: neither
  bool is_control = false;        // a norm or a count, not traffic of tensors
};

// Memory taken, given back, or counted under another category.
struct TraceMemory {
  enum class Kind : uint8_t { Take, Free, Move };
  Kind kind = Kind::Take;
  Category category = Category::Activations;  // Move: the new one
  Category from = Category::Activations;      // Move: the old one
  uint32_t at = 0;                            // operations issued before
  int64_t begin = 0, bytes = 0;               // of the arena; bytes as asked for, not rounded
  friend bool operator==(const TraceMemory&, const TraceMemory&) = default;
};

struct Trace {
  static constexpr int kCompute = 0;  // lane of the rank's own operations

  std::vector<TraceLane> lanes = {{"compute"}};
  std::vector<TraceOp> ops;  // as issued
  std::vector<TraceOperand> operand_list;
  std::vector<uint32_t> wait_list;  // places in `ops` of operations that must be done before
  std::vector<TraceMemory> memory;

  const TraceLane& lane_of(const TraceOp& op) const { return lanes[static_cast<size_t>(op.lane)]; }
  std::span<const TraceOperand> operands_of(const TraceOp& op) const {
    return std::span(operand_list).subspan(op.operands, op.operands_end - op.operands);
  }
  std::span<const uint32_t> waits_of(const TraceOp& op) const {
    return std::span(wait_list).subspan(op.waits, op.waits_end - op.waits);
  }
};

}  // namespace sextant
