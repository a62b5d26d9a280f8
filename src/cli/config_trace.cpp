#include <nlohmann/json.hpp>

#include "base/category.h"
#include "base/error.h"
#include "cli/config_mesh.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "trace/print.h"
#include "train/phantom.h"
#include "train/preflight.h"
#include "train/rehearsal.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostBytes = int64_t{32} << 20;  // of the trace; its text is some times longer

Json operand_json(const TraceOperand& operand) {
  Json shape = Json::array();
  for (int dim = 0; dim < operand.dims; ++dim)
    shape.push_back(operand.shape[static_cast<size_t>(dim)]);
  return {{"dtype", name_of(operand.dtype)},
          {"shape", std::move(shape)},
          {"begin", operand.begin},
          {"end", operand.end}};
}

Json op_json(const Trace& trace, size_t index) {
  const TraceOp& op = trace.ops[index];
  Json reads = Json::array(), writes = Json::array(), waits = Json::array();
  for (const TraceOperand& operand : trace.operands_of(op))
    (operand.is_written ? writes : reads).push_back(operand_json(operand));
  for (const uint32_t wait : trace.waits_of(op)) waits.push_back(wait);
  return {{"op", index},
          {"lane", op.lane},
          {"name", op.name},
          {"layer", op.scope.layer},
          {"micro", op.scope.micro},
          {"pass", op.scope.pass},
          {"reads", std::move(reads)},
          {"writes", std::move(writes)},
          {"flops", op.flops},
          {"read_bytes", op.read},
          {"written_bytes", op.written},
          {"sent_elements", op.sent},
          {"sent_bytes", op.sent * size_of(op.sent_as)},
          {"peer", op.peer},
          {"waits", std::move(waits)}};
}

const char* kind_name(TraceLane::Kind kind) {
  switch (kind) {
    case TraceLane::Kind::Compute:
      return "compute";
    case TraceLane::Kind::Collective:
      return "collective";
    case TraceLane::Kind::Send:
      return "send";
    case TraceLane::Kind::Receive:
      return "receive";
  }
  return "";
}

const char* kind_name(TraceMemory::Kind kind) {
  switch (kind) {
    case TraceMemory::Kind::Take:
      return "take";
    case TraceMemory::Kind::Free:
      return "free";
    case TraceMemory::Kind::Move:
      return "move";
  }
  return "";
}

Json to_json(const StepTraces& steps, int64_t rank) {
  const Trace& trace = steps.trace;
  Json lanes = Json::array(), ops = Json::array(), memory = Json::array();
  for (const TraceLane& lane : trace.lanes)
    lanes.push_back({{"name", lane.name}, {"kind", kind_name(lane.kind)}, {"ranks", lane.ranks}});
  for (size_t i = steps.second; i < steps.end; ++i) ops.push_back(op_json(trace, i));
  for (const TraceMemory& event : trace.memory)
    if (event.at >= steps.second && event.at < steps.end)
      memory.push_back({{"before_op", event.at},
                        {"kind", kind_name(event.kind)},
                        {"category", name_of(event.category)},
                        {"begin", event.begin},
                        {"bytes", event.bytes}});
  return {{"rank", rank},
          {"first_op", steps.second},
          {"lanes", std::move(lanes)},
          {"ops", std::move(ops)},
          {"memory", std::move(memory)}};
}

}  // namespace

void show_trace(Context& context, const std::string& path, int64_t rank) {
  const Config config = load_settings(context, path).config;
  const int ranks = world_size(config.parallel);
  SXT_CHECK(rank < ranks, Usage, "--rank ", rank, ": the run has ranks 0 to ", ranks - 1);
  const Preflight flight = forecast(config, 0);
  Budget budget = trace_budget(config, 1, kMostBytes);
  const auto index = static_cast<size_t>(rank);
  const StepTraces steps =
      trace_steps(config, flight, static_cast<int>(rank), flight.plans[index], &budget);
  if (context.json)
    print_json(to_json(steps, rank));
  else
    print(trace_text(steps.trace, steps.second, steps.end));
}

}  // namespace sextant::cli
