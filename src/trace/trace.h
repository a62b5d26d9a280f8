#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/category.h"
#include "base/dtype.h"

namespace sextant {

// The operations and messages of one rank in the order issued, and its memory allocations, without
// times. Phantom and real devices that run the same program record the same trace.

// A tensor that an operation reads or writes.
struct TraceOperand {
  static constexpr int kMaxDims = 5;

  int64_t begin = 0, end = 0;  // byte range in the rank's arena
  std::array<int64_t, kMaxDims> shape{};
  uint8_t dims = 0;
  DType dtype = DType::F32;
  bool is_written = false;  // otherwise read; an operand that is both is listed twice
  friend bool operator==(const TraceOperand&, const TraceOperand&) = default;
};

// The layer, micro-batch and pass of an operation.
struct TraceScope {
  int32_t layer = -1;     // of the model; -1: none
  int32_t micro = -1;     // micro-batch; -1: none
  const char* pass = "";  // a literal: "forward", "backward", "optimizer"
};

// A queue of a rank, as a CUDA stream: its operations run one after another. Operations of
// different lanes are ordered by waits only.
struct TraceLane {
  // Messages have one lane per direction and peer: transports order no other messages.
  enum class Kind : uint8_t { Compute, Collective, Send, Receive };

  std::string name;
  Kind kind = Kind::Compute;
  std::string group = {};       // name of the process group, the same on all members
  std::vector<int> ranks = {};  // world ranks of the group, in group order
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
  DType sent_as = DType::F32;     // type of these elements
  int32_t peer = -1;              // peer of a message or root, as a group rank; -1: neither
  bool is_control = false;        // control traffic (a norm, a count)
};

// Memory allocated, freed, or moved to another category.
struct TraceMemory {
  enum class Kind : uint8_t { Take, Free, Move };
  Kind kind = Kind::Take;
  Category category = Category::Activations;  // Move: the new one
  Category from = Category::Activations;      // Move: the old one
  uint32_t at = 0;                            // number of operations issued before
  int64_t begin = 0, bytes = 0;               // offset in the arena; bytes before alignment
  friend bool operator==(const TraceMemory&, const TraceMemory&) = default;
};

struct Trace {
  static constexpr int kCompute = 0;  // index of the compute lane

  std::vector<TraceLane> lanes = {{"compute"}};
  std::vector<TraceOp> ops;  // as issued
  std::vector<TraceOperand> operand_list;
  std::vector<uint32_t> wait_list;  // indices in `ops` of operations that must be done before
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
