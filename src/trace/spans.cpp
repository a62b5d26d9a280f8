#include "trace/spans.h"

#include <utility>

#include "base/error.h"
#include "trace/print.h"

namespace sextant {
namespace {

std::string span_name(const Trace& trace, const TraceOp& op) {
  std::string name = op.name;
  if (op.lane != Trace::kCompute) name += concat(" ", trace.lane_of(op).name);
  if (op.scope.layer >= 0)
    name +=
        concat(" (layer ", op.scope.layer, ", micro ", op.scope.micro, ", ", op.scope.pass, ")");
  return name;
}

std::vector<SpanFact> facts_of(const Trace& trace, size_t index) {
  const TraceOp& op = trace.ops[index];
  std::vector<SpanFact> facts = {{"op", static_cast<double>(index)}};
  std::vector<std::string> reads, writes, waits;
  for (const TraceOperand& operand : trace.operands_of(op))
    (operand.is_written ? writes : reads).push_back(to_string(operand));
  for (const uint32_t wait : trace.waits_of(op)) waits.push_back(op_text(trace, wait));
  const auto add_texts = [&](const char* name, std::vector<std::string>& texts) {
    if (!texts.empty()) facts.push_back({name, 0, std::move(texts)});
  };
  const auto add_number = [&](const char* name, double number) {
    if (number != 0) facts.push_back({name, number});
  };
  add_texts("reads", reads);
  add_texts("writes", writes);
  add_number("flops", op.flops);
  add_number("read_bytes", static_cast<double>(op.read));
  add_number("written_bytes", static_cast<double>(op.written));
  add_number("sent_elements", static_cast<double>(op.sent));
  add_texts("waits_for", waits);
  return facts;
}

}  // namespace

std::vector<Span> spans_of(const Trace& trace, int rank, size_t first, size_t last,
                           const std::function<OpInterval(size_t op)>& when) {
  std::vector<Span> spans;
  spans.reserve(last - first);
  for (size_t i = first; i < last; ++i) {
    const TraceOp& op = trace.ops[i];
    const bool is_compute = op.lane == Trace::kCompute;
    const OpInterval at = when(i);
    Span span{
        is_compute ? "compute" : "comm", span_name(trace, op), rank, op.lane, at.begin, at.end};
    if (!is_compute) span.bytes = op.sent * size_of(op.sent_as);
    span.lane_name = trace.lane_of(op).name;
    span.facts = facts_of(trace, i);
    for (const uint32_t wait : trace.waits_of(op)) {
      if (wait < first) continue;
      const OpInterval other = when(wait);
      span.waits.push_back({trace.ops[wait].lane, other.begin, other.end});
    }
    spans.push_back(std::move(span));
  }
  return spans;
}

std::vector<Span> spans_of(const Trace& trace, int rank) {
  constexpr double kUnit = 1e-6;
  return spans_of(trace, rank, 0, trace.ops.size(), [](size_t op) {
    const double begin = static_cast<double>(op) * kUnit;
    return OpInterval{begin, begin + kUnit};
  });
}

}  // namespace sextant
