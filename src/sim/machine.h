#pragma once
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/storage.h"
#include "sim/trace_time.h"

namespace sextant {

// Seconds of an operation as a sum over what it does: each call, FLOP and byte costs something.
struct OpCost {
  double call = 0, flop = 0, read = 0, written = 0;
  double sent = 0;  // of a collective or message, per byte that a rank sends

  double of(double flops, double bytes_read, double bytes_written, double bytes_sent) const {
    return call + flops * flop + bytes_read * read + bytes_written * written + bytes_sent * sent;
  }
};

// A machine whose ranks share its cores, as `sextant bench calibrate` measured it. Costs are those
// with all cores at work; of a collective they are core seconds of each member.
struct Machine {
  std::string name;
  int cores = 0;
  std::map<std::string, OpCost> costs;  // by operation_key or collective_key
};

// "matmul-bf16-2": an operation by the type of its first input (of its output if it has none) and
// the threads of its rank.
std::string operation_key(std::string_view name, DType dtype, int threads);
DType type_of(const Trace& trace, const TraceOp& op);

// The name of an operation in the keys of a GPU: "attention_d64", where the head dimension decides
// the rate, otherwise its own name.
std::string gpu_cost_name(const Trace& trace, const TraceOp& op);

// "all_reduce-f32-4-shared": a collective by type and group size; `shared` where there are more
// ranks than cores, else `own`. Messages are "send", of groups of 2.
std::string collective_key(std::string_view name, DType dtype, int ranks, bool is_shared);

// Whether a key of a hardware file, "section.key", belongs to the costs of a machine: [cpu], or a
// section with at least two dashes.
bool is_machine_key(std::string_view key);
// Whether a hardware file has any.
bool has_machine(const std::string& text, const std::string& name);

// Reads the sections [cpu] and those of operations of a hardware file. Error(Config) for a file
// without them, and for values out of range.
Machine parse_machine(const std::string& text, const std::string& name);
std::string machine_text(const Machine& machine);  // as parse_machine reads it

// The seconds of a trace's operations on a machine. What was not measured costs as much as the
// nearest that was: the same operation with other threads or of another type, a group of another
// size, or a copy of as many bytes.
class MachineCosts {
 public:
  // A run of `ranks` ranks of `threads` threads.
  MachineCosts(const Machine& machine, int ranks, int threads);

  double seconds_of(const Trace& trace, const TraceOp& op) const;  // from any thread
  SharedCores cores() const { return {machine_.cores, threads_}; }
  std::vector<std::string> assumed() const;  // what was not measured, a line for each

 private:
  double compute(const Trace& trace, const TraceOp& op) const;
  double exchange(const TraceOp& op, int ranks) const;
  const OpCost& nearest_operation(std::string_view name, DType dtype) const;
  const OpCost& nearest_collective(std::string_view name, DType dtype, int ranks) const;
  const OpCost* find(const std::string& key) const;
  const OpCost* find_assumed(const std::string& wanted) const;
  const OpCost& assume(const std::string& wanted, const std::string& taken) const;

  const Machine& machine_;
  int ranks_, threads_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::string> assumed_;  // what was wanted, what was taken
};

}  // namespace sextant
