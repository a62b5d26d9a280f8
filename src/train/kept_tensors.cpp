#include "train/kept_tensors.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace sextant {
namespace {

// Tensor `place` of the `count` tensors that an operation writes.
struct Rule {
  std::string_view op;
  int count, place;
  Kept kind;
};

// Without and with a residual to add.
constexpr Rule kNorm[] = {
    {"rmsnorm", 2, 0, Kept::Normed},       {"rmsnorm", 2, 1, Kept::Statistics},
    {"rmsnorm", 3, 0, Kept::Normed},       {"rmsnorm", 3, 1, Kept::Statistics},
    {"layernorm", 3, 0, Kept::Normed},     {"layernorm", 3, 1, Kept::Statistics},
    {"layernorm", 3, 2, Kept::Statistics}, {"layernorm", 4, 0, Kept::Normed},
    {"layernorm", 4, 1, Kept::Statistics}, {"layernorm", 4, 2, Kept::Statistics},
};
constexpr Rule kAttention[] = {
    {"matmul", 1, 0, Kept::Qkv},
    {"head_norm", 2, 0, Kept::Qkv},
    {"head_norm", 2, 1, Kept::HeadStatistics},
    {"attention", 2, 0, Kept::Attended},
    {"attention", 2, 1, Kept::LogSumExp},
};
constexpr Rule kMlp[] = {
    {"matmul", 1, 0, Kept::Wide},  // gated, or in fp8
    {"swiglu", 1, 0, Kept::Active},
    {"matmul", 2, 0, Kept::Active},  // with the activation as epilogue
    {"matmul", 2, 1, Kept::Wide},
};

// Operations [begin, end) of a trace.
struct OpRange {
  uint32_t begin, end;
};

uint32_t first_forward(const Trace& trace, size_t layer) {
  const auto found = std::ranges::find_if(trace.ops, [&](const TraceOp& op) {
    return op.scope.layer == static_cast<int32_t>(layer) && op.scope.micro == 0 &&
           std::string_view(op.scope.pass) == "forward";
  });
  SXT_CHECK(found != trace.ops.end(), Internal, "the trace has no forward of layer ", layer);
  return static_cast<uint32_t>(found - trace.ops.begin());
}

// The first operation after forward.
uint32_t first_backward(const Trace& trace, uint32_t begin) {
  for (uint32_t i = begin; i < trace.ops.size(); ++i) {
    const TraceScope& scope = trace.ops[i].scope;
    if (scope.layer >= 0 && std::string_view(scope.pass) != "forward") return i;
  }
  SXT_FAIL(Internal, "the trace has no backward");
}

// Activations allocated by these operations that are alive when backward starts.
std::vector<TraceMemory> alive_after(const Trace& trace, const OpRange& span) {
  std::vector<TraceMemory> alive;
  const uint32_t end = first_backward(trace, span.end);
  for (const TraceMemory& event : trace.memory) {
    if (event.at > end) break;
    if (event.kind == TraceMemory::Kind::Take && event.category == Category::Activations &&
        event.at >= span.begin && event.at < span.end)
      alive.push_back(event);
    if (event.kind == TraceMemory::Kind::Free)
      std::erase_if(alive, [&](const TraceMemory& one) { return one.begin == event.begin; });
  }
  return alive;
}

bool is_within(const TraceOperand& operand, const TraceMemory& memory) {
  return operand.begin >= memory.begin && operand.end <= memory.begin + memory.bytes;
}

bool reads(const Trace& trace, const TraceOp& op, const TraceMemory& memory) {
  return std::ranges::any_of(trace.operands_of(op), [&](const TraceOperand& operand) {
    return !operand.is_written && is_within(operand, memory);
  });
}

// Bytes that only one operation uses.
bool is_workspace(const TraceOperand& operand) {
  return operand.dims == 1 && operand.dtype == DType::F8E4M3;
}

// The operation that first writes a tensor, and its index among the tensors it writes.
struct Writer {
  const TraceOp* op = nullptr;
  int count = 0, place = 0;
  DType dtype = DType::F32;
};

Writer writer_of(const Trace& trace, const OpRange& span, const TraceMemory& memory) {
  for (uint32_t i = span.begin; i < span.end; ++i) {
    Writer writer{&trace.ops[i]};
    bool is_found = false;
    for (const TraceOperand& operand : trace.operands_of(trace.ops[i])) {
      if (!operand.is_written || is_workspace(operand)) continue;
      if (!is_found && is_within(operand, memory)) {
        is_found = true;
        writer.place = writer.count;
        writer.dtype = operand.dtype;
      }
      ++writer.count;
    }
    if (is_found) return writer;
  }
  SXT_FAIL(Internal, "a layer keeps ", memory.bytes, " bytes that no operation of it writes");
}

std::optional<Kept> find_rule(std::span<const Rule> rules, const Writer& writer) {
  for (const Rule& rule : rules)
    if (rule.op == writer.op->name && rule.count == writer.count && rule.place == writer.place)
      return rule.kind;
  return {};
}

// The operation that wrote what a quantisation reads.
std::optional<Writer> writer_before(const Trace& trace, const OpRange& span, const TraceOp& op) {
  const auto at = static_cast<uint32_t>(&op - trace.ops.data());
  for (const TraceOperand& from : trace.operands_of(op)) {
    if (from.is_written) continue;
    for (uint32_t i = at; i-- > span.begin;) {
      Writer writer{&trace.ops[i]};
      bool is_found = false;
      for (const TraceOperand& operand : trace.operands_of(trace.ops[i])) {
        if (!operand.is_written || is_workspace(operand)) continue;
        if (!is_found && operand.begin < from.end && from.begin < operand.end) {
          is_found = true;
          writer.place = writer.count;
        }
        ++writer.count;
      }
      if (is_found) return writer;
    }
    return {};
  }
  return {};
}

// A tensor kept in fp8 is named as what was quantised.
std::optional<Kept> quantized_kind(const Trace& trace, const OpRange& span, LayerKind layer,
                                   const Writer& writer) {
  const std::string_view name = writer.op->name;
  if (name == "block_amax" || name == "activated_amax") return Kept::Scales;
  if (!name.starts_with("quantize")) return {};
  if (writer.dtype == DType::F32) return Kept::Scales;
  const std::optional<Writer> before = writer_before(trace, span, *writer.op);
  if (before && find_rule(kNorm, *before)) return Kept::Normed;
  return layer == LayerKind::Attention ? Kept::Attended : Kept::Active;
}

Kept kind_of(const Trace& trace, const OpRange& span, const LayerSpec& layer,
             const TraceMemory& memory, const Writer& writer) {
  std::optional<Kept> kind = find_rule(kNorm, writer);
  if (!kind) kind = quantized_kind(trace, span, layer.kind, writer);
  if (!kind && layer.kind == LayerKind::Attention) kind = find_rule(kAttention, writer);
  if (!kind && layer.kind == LayerKind::Mlp) kind = find_rule(kMlp, writer);
  SXT_CHECK(kind, Internal, layer.name, " keeps ", memory.bytes, " bytes that ", writer.op->name,
            " writes, a tensor without a name in kept_tensors.cpp");
  for (uint32_t i = span.begin; i < span.end; ++i)
    if (std::string_view(trace.ops[i].name) == "head_norm" && reads(trace, trace.ops[i], memory))
      return Kept::RawQkv;
  return *kind;
}

// The next layer keeps its input for the backward of its norm.
bool is_input(const Trace& trace, const OpRange& next, const TraceMemory& memory) {
  for (uint32_t i = next.begin; i < next.end; ++i) {
    const std::string_view name = trace.ops[i].name;
    if (name == "rmsnorm" || name == "layernorm") return reads(trace, trace.ops[i], memory);
  }
  return false;
}

void check_names(const std::vector<KeptTensor>& kept, const std::string& layer) {
  for (const KeptTensor& one : kept) {
    const auto same = std::ranges::count_if(kept, [&](const KeptTensor& other) {
      return other.layer == one.layer && other.kind == one.kind;
    });
    SXT_CHECK(same == 1 || one.kind == Kept::Statistics || one.kind == Kept::Scales, Internal,
              "a block with ", layer, " keeps ", same, " tensors of kind ",
              static_cast<int>(one.kind), ", must be one");
  }
}

}  // namespace

std::vector<KeptTensor> kept_tensors(const Trace& trace, const Blueprint& blueprint,
                                     size_t attention) {
  std::vector<KeptTensor> kept;
  for (const size_t layer : {attention, attention + 1}) {
    const LayerSpec& spec = blueprint.layers[layer];
    const OpRange span{first_forward(trace, layer), first_forward(trace, layer + 1)};
    const OpRange next{span.end, static_cast<uint32_t>(trace.ops.size())};
    const LayerKind other =
        spec.kind == LayerKind::Attention ? LayerKind::Mlp : LayerKind::Attention;
    for (const TraceMemory& memory : alive_after(trace, span)) {
      const Writer writer = writer_of(trace, span, memory);
      if (is_input(trace, next, memory))
        kept.push_back({other, Kept::Input, memory.bytes, writer.dtype});
      else
        kept.push_back(
            {spec.kind, kind_of(trace, span, spec, memory, writer), memory.bytes, writer.dtype});
    }
  }
  check_names(kept, blueprint.layers[attention].name);
  return kept;
}

}  // namespace sextant
