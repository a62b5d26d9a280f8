#include "trace/spans.h"

#include "base/error.h"

namespace sextant {

std::vector<Span> spans_of(const Trace& trace, int rank) {
  constexpr double kUnit = 1e-6;
  std::vector<Span> spans;
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp& op = trace.ops[i];
    const bool is_compute = op.lane == Trace::kCompute;
    std::string name = op.name;
    if (!is_compute) name += concat(" ", trace.lanes[static_cast<size_t>(op.lane)]);
    if (op.scope.layer >= 0)
      name +=
          concat(" (layer ", op.scope.layer, ", micro ", op.scope.micro, ", ", op.scope.pass, ")");
    const double begin = static_cast<double>(i) * kUnit;
    spans.push_back(
        {is_compute ? "compute" : "comm", std::move(name), rank, op.lane, begin, begin + kUnit});
  }
  return spans;
}

}  // namespace sextant
