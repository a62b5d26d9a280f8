#include "sim/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/parse.h"
#include "config/toml_text.h"

namespace sextant {
namespace {

constexpr DType kTypes[] = {DType::F32,    DType::BF16, DType::F16, DType::F8E4M3,
                            DType::F8E5M2, DType::I32,  DType::I64, DType::F64};

// A number of a file: `us` are microseconds of a call, the others amounts per second, 0 where that
// costs nothing.
struct CostField {
  const char* key;
  double OpCost::*member;
  double unit;
  bool is_rate;
};
constexpr CostField kCostFields[] = {{"us", &OpCost::call, 1e-6, false},
                                     {"gflops", &OpCost::flop, 1e9, true},
                                     {"read_gb_s", &OpCost::read, 1e9, true},
                                     {"write_gb_s", &OpCost::written, 1e9, true},
                                     {"send_gb_s", &OpCost::sent, 1e9, true}};
constexpr double kMostOfCost = 1e9;
constexpr double kMostCores = 4096;

double number_of(const TomlEntry& entry, double least, double most, const std::string& origin) {
  double value = NAN;
  if (entry.value) {
    if (const auto* whole = std::get_if<int64_t>(&*entry.value))
      value = static_cast<double>(*whole);
    else if (const auto* real = std::get_if<double>(&*entry.value))
      value = *real;
  }
  SXT_CHECK(value >= least && value <= most, Config, origin, ": ", entry.key, " is ",
            entry.value ? to_short_text(*entry.value) : entry.kind, ", it takes a number from ",
            least, " to ", most);
  return value;
}

void read_cost(Machine& out, const TomlEntry& entry, const std::string& origin) {
  const size_t dot = entry.key.rfind('.');
  const std::string key = entry.key.substr(dot + 1);
  const auto* field =
      std::ranges::find_if(kCostFields, [&](const CostField& one) { return key == one.key; });
  if (field == std::end(kCostFields)) {
    std::vector<std::string> names;
    for (const CostField& one : kCostFields) names.emplace_back(one.key);
    SXT_FAIL(Config, origin, ": unknown key '", entry.key, "'", did_you_mean(key, names));
  }
  const double value = number_of(entry, 0, kMostOfCost, origin);
  OpCost& cost = out.costs[entry.key.substr(0, dot)];
  cost.*(field->member) = !field->is_rate ? value * field->unit
                          : value > 0     ? 1 / (value * field->unit)
                                          : 0;
}

// What a collective that is not measured resembles.
std::string_view resembling(std::string_view name) {
  if (name == "reduce") return "reduce_scatter";
  if (name == "gather" || name == "scatter") return "all_to_all";
  if (name == "broadcast") return "all_gather";
  return "all_reduce";
}

// Nothing for "".
const OpCost& cost_of(const Machine& machine, const std::string& key) {
  static const OpCost kNothing;
  return key.empty() ? kNothing : machine.costs.at(key);
}

}  // namespace

std::string operation_key(std::string_view name, DType dtype, int threads) {
  return fmt::format("{}-{}-{}", name, name_of(dtype), threads);
}

DType type_of(const Trace& trace, const TraceOp& op) {
  const auto operands = trace.operands_of(op);
  const auto read = std::ranges::find_if(
      operands, [](const TraceOperand& operand) { return !operand.is_written; });
  if (read != operands.end()) return read->dtype;
  return operands.empty() ? DType::F32 : operands.front().dtype;
}

// The statistics of attention, [batch, heads, tokens], and its output or the gradient of that,
// [tokens, heads * head_dim], which is the first matrix that forward writes and backward reads.
std::string gpu_cost_name(const Trace& trace, const TraceOp& op) {
  const std::string_view name = op.name;
  if (name != "attention" && name != "attention_backward") return op.name;
  int64_t heads = 0, width = 0;
  for (const TraceOperand& operand : trace.operands_of(op)) {
    if (operand.dims == 3 && heads == 0) heads = operand.shape[1];
    if (operand.dims == 2 && operand.is_written == (name == "attention") && width == 0)
      width = operand.shape[1];
  }
  return heads > 0 && width > 0 ? fmt::format("{}_d{}", name, width / heads) : op.name;
}

std::string collective_key(std::string_view name, DType dtype, int ranks, bool is_shared) {
  return fmt::format("{}-{}-{}-{}", name, name_of(dtype), ranks, is_shared ? "shared" : "own");
}

bool is_machine_key(std::string_view key) {
  const std::string_view section = key.substr(0, key.find('.'));
  return section == "cpu" || std::ranges::count(section, '-') >= 2;
}

bool has_machine(const std::string& text, const std::string& name) {
  return std::ranges::any_of(read_toml(text, name),
                             [](const TomlEntry& entry) { return is_machine_key(entry.key); });
}

Machine parse_machine(const std::string& text, const std::string& name) {
  Machine out;
  for (const TomlEntry& entry : read_toml(text, name)) {
    const std::string origin = concat(name, ":", entry.line);
    if (entry.key == "name" && entry.value) {
      if (const auto* value = std::get_if<std::string>(&*entry.value)) out.name = *value;
    } else if (entry.key == "cpu.cores") {
      out.cores = static_cast<int>(number_of(entry, 1, kMostCores, origin));
    } else if (is_machine_key(entry.key)) {
      read_cost(out, entry, origin);
    }
  }
  SXT_CHECK(
      out.cores > 0 && !out.costs.empty(), Config, name,
      ": has no measured costs of operations; sextant bench calibrate writes a file that does");
  return out;
}

std::string machine_text(const Machine& machine) {
  std::string out = fmt::format("[cpu]\ncores = {}\n", machine.cores);
  for (const auto& [key, cost] : machine.costs) {
    out += fmt::format("\n[{}]\n", key);
    for (const CostField& field : kCostFields)
      if (const double value = cost.*(field.member); value > 0)
        out += fmt::format("{} = {:.5g}\n", field.key,
                           field.is_rate ? 1 / (value * field.unit) : value / field.unit);
    if (cost.of(1, 1, 1, 1) == 0) out += "us = 0\n";
  }
  return out;
}

MachineCosts::MachineCosts(const Machine& machine, int ranks, int threads)
    : machine_(machine), ranks_(ranks), threads_(threads) {}

double MachineCosts::seconds_of(const Trace& trace, const TraceOp& op) const {
  const TraceLane& lane = trace.lane_of(op);
  if (lane.kind == TraceLane::Kind::Compute) return compute(trace, op);
  if (lane.kind == TraceLane::Kind::Receive) return 0;
  if (lane.ranks.size() > 1) return exchange(op, static_cast<int>(lane.ranks.size()));
  const auto operands = trace.operands_of(op);
  const bool is_copy = std::ranges::any_of(operands, [&](const TraceOperand& operand) {
    return operand.begin != operands.front().begin;
  });
  if (!is_copy) return 0;
  return nearest_operation("copy", op.sent_as)
      .of(0, static_cast<double>(op.read), static_cast<double>(op.written), 0);
}

double MachineCosts::compute(const Trace& trace, const TraceOp& op) const {
  const DType type = type_of(trace, op);
  const OpCost* special = find(operation_key(gpu_cost_name(trace, op), type, threads_));
  return (special != nullptr ? *special : nearest_operation(op.name, type))
      .of(op.flops, static_cast<double>(op.read), static_cast<double>(op.written), 0);
}

double MachineCosts::exchange(const TraceOp& op, int ranks) const {
  const double bytes = static_cast<double>(op.sent) * static_cast<double>(size_of(op.sent_as));
  return nearest_collective(op.name, op.sent_as, ranks).of(0, 0, 0, bytes);
}

const OpCost* MachineCosts::find(const std::string& key) const {
  const auto found = machine_.costs.find(key);
  return found == machine_.costs.end() ? nullptr : &found->second;
}

const OpCost* MachineCosts::find_assumed(const std::string& wanted) const {
  const std::lock_guard lock(mutex_);
  const auto found = assumed_.find(wanted);
  return found == assumed_.end() ? nullptr : &cost_of(machine_, found->second);
}

const OpCost& MachineCosts::assume(const std::string& wanted, const std::string& taken) const {
  const std::lock_guard lock(mutex_);
  return cost_of(machine_, assumed_.emplace(wanted, taken).first->second);
}

const OpCost& MachineCosts::nearest_operation(std::string_view name, DType dtype) const {
  const std::string wanted = operation_key(name, dtype, threads_);
  if (const OpCost* cost = find(wanted)) return *cost;
  if (const OpCost* cost = find_assumed(wanted)) return *cost;
  for (const std::string_view other : {name, std::string_view("copy")})
    for (int distance = 0; distance <= machine_.cores; ++distance)
      for (const int threads : {threads_ - distance, threads_ + distance})
        for (const DType type : kTypes) {
          const std::string key = operation_key(other, type, threads);
          if (find(key) != nullptr) return assume(wanted, key);
        }
  return assume(wanted, "");
}

const OpCost& MachineCosts::nearest_collective(std::string_view name, DType dtype,
                                               int ranks) const {
  const bool is_shared = ranks_ * threads_ > machine_.cores;
  const std::string wanted = collective_key(name, dtype, ranks, is_shared);
  if (const OpCost* cost = find(wanted)) return *cost;
  if (const OpCost* cost = find_assumed(wanted)) return *cost;
  std::string best;
  double nearest = INFINITY;
  for (const std::string_view other : {name, resembling(name)})
    for (const DType type : {dtype, DType::F32, DType::BF16})
      for (const bool shared : {is_shared, !is_shared})
        for (int size = 2; size <= 4 * std::max(ranks, machine_.cores); ++size) {
          const double distance = std::abs(std::log2(static_cast<double>(size) / ranks)) +
                                  (other != name ? 100 : 0) + (type != dtype ? 0.5 : 0) +
                                  (shared != is_shared ? 10 : 0);
          const std::string key = collective_key(other, type, size, shared);
          if (distance < nearest && find(key) != nullptr) best = key, nearest = distance;
        }
  return assume(wanted, best);
}

std::vector<std::string> MachineCosts::assumed() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [wanted, taken] : assumed_)
    out.push_back(wanted + ": not measured, " + (taken.empty() ? "costs nothing" : "as " + taken));
  return out;
}

}  // namespace sextant
