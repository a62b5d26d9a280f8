#include "trace/spans.h"

#include "base/error.h"

namespace sextant {

Span span_of(const Trace& trace, const TraceOp& op, int rank, double begin, double end) {
  const bool is_compute = op.lane == Trace::kCompute;
  std::string name = op.name;
  if (!is_compute) name += concat(" ", trace.lane_of(op).name);
  if (op.scope.layer >= 0)
    name +=
        concat(" (layer ", op.scope.layer, ", micro ", op.scope.micro, ", ", op.scope.pass, ")");
  Span span{is_compute ? "compute" : "comm", std::move(name), rank, op.lane, begin, end};
  if (!is_compute) span.bytes = op.sent * size_of(op.sent_as);
  return span;
}

std::vector<Span> spans_of(const Trace& trace, int rank) {
  constexpr double kUnit = 1e-6;
  std::vector<Span> spans;
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    const double begin = static_cast<double>(i) * kUnit;
    spans.push_back(span_of(trace, trace.ops[i], rank, begin, begin + kUnit));
  }
  return spans;
}

std::vector<Span> device_spans_of(const Trace& trace, std::span<const OpTime> times, int rank) {
  std::vector<Span> spans;
  for (size_t i = 0; i < trace.ops.size() && i < times.size(); ++i) {
    if (!times[i].is_known()) continue;
    spans.push_back(span_of(trace, trace.ops[i], rank, times[i].begin, times[i].end));
    spans.back().kind = "kernel";
    spans.back().lane += kDeviceLane;
  }
  return spans;
}

}  // namespace sextant
