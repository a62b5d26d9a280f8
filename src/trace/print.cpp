#include "trace/print.h"

#include <vector>

#include "base/columns.h"
#include "base/error.h"
#include "base/parse.h"

namespace sextant {
namespace {

std::string number_or_none(int32_t number) {
  return number < 0 ? "-" : std::to_string(number);
}

std::string bytes_or_none(int64_t bytes) {
  return bytes == 0 ? "-" : format_bytes(bytes);
}

// "f32 [4, 8], f32 [8, 8] -> f32 [4, 8]"
std::string operands_text(const Trace& trace, const TraceOp& op) {
  std::vector<std::string> reads, writes;
  for (const TraceOperand& operand : trace.operands_of(op))
    (operand.is_written ? writes : reads).push_back(to_string(operand));
  if (writes.empty()) return join(reads, ", ");
  return concat(join(reads, ", "), reads.empty() ? "-> " : " -> ", join(writes, ", "));
}

std::string waits_text(const Trace& trace, const TraceOp& op) {
  std::vector<std::string> waits;
  for (const uint32_t wait : trace.waits_of(op)) waits.push_back(concat("#", wait));
  return waits.empty() ? "-" : join(waits, " ");
}

struct Sums {
  int64_t operations = 0, read = 0, written = 0, sent = 0;
  double flops = 0;
};

std::string lanes_text(const Trace& trace, size_t first, size_t last) {
  std::vector<Sums> sums(trace.lanes.size());
  for (size_t i = first; i < last; ++i) {
    const TraceOp& op = trace.ops[i];
    Sums& lane = sums[static_cast<size_t>(op.lane)];
    ++lane.operations;
    lane.flops += op.flops;
    lane.read += op.read;
    lane.written += op.written;
    lane.sent += op.sent * size_of(op.sent_as);
  }
  std::vector<TextRow> rows = {{"lane", "operations", "FLOPs", "read", "written", "sent"}};
  for (size_t i = 0; i < sums.size(); ++i)
    if (sums[i].operations > 0)
      rows.push_back({trace.lanes[i].name, std::to_string(sums[i].operations),
                      format_count(sums[i].flops), bytes_or_none(sums[i].read),
                      bytes_or_none(sums[i].written), bytes_or_none(sums[i].sent)});
  return aligned(rows, "", Align::Right);
}

}  // namespace

std::string to_string(const TraceOperand& operand) {
  std::string text = concat(name_of(operand.dtype), " [");
  for (int dim = 0; dim < operand.dims; ++dim)
    text += concat(dim > 0 ? ", " : "", operand.shape[static_cast<size_t>(dim)]);
  return text + "]";
}

std::string op_text(const Trace& trace, uint32_t op) {
  const TraceOp& one = trace.ops[op];
  return concat("#", op, " ", one.name,
                one.lane == Trace::kCompute ? "" : concat(" ", trace.lane_of(one).name));
}

std::string trace_text(const Trace& trace, size_t first, size_t last) {
  std::vector<TextRow> rows = {{"op", "lane", "operation", "layer", "micro", "pass", "FLOPs",
                                "read", "written", "sent", "waits for", "operands"}};
  for (size_t i = first; i < last; ++i) {
    const TraceOp& op = trace.ops[i];
    rows.push_back({concat("#", i), trace.lane_of(op).name, op.name, number_or_none(op.scope.layer),
                    number_or_none(op.scope.micro), *op.scope.pass == 0 ? "-" : op.scope.pass,
                    op.flops == 0 ? "-" : format_count(op.flops), bytes_or_none(op.read),
                    bytes_or_none(op.written), bytes_or_none(op.sent * size_of(op.sent_as)),
                    waits_text(trace, op), operands_text(trace, op)});
  }
  return concat(aligned(rows, "", Align::Left), "\n", lanes_text(trace, first, last));
}

}  // namespace sextant
