#include "plan/search_space.h"

#include <algorithm>

#include "base/error.h"
#include "config/load.h"

namespace sextant {
namespace {

constexpr int64_t kLeastTokens = 256;  // of a sequence on a rank of cp
constexpr int64_t kMostContext = 64;
constexpr int kMostChunks = 8;

bool exists(ScheduleKind kind, int64_t pp, int64_t micros) {
  switch (kind) {
    case ScheduleKind::DualPipe:
      return pp % 2 == 0 && micros % 2 == 0 && micros >= 2 * pp;
    case ScheduleKind::DualPipeV:
      return micros >= 2 * pp;
    case ScheduleKind::Interleaved:
    case ScheduleKind::InterleavedZb:
      return micros >= pp;
    default:
      return true;
  }
}

// Whether stages are equal, embedding and head counted as a layer each where layers do not divide.
bool are_even(int64_t layers, int64_t stages) {
  return stages <= layers && (layers % stages == 0 || (layers + 2) % stages == 0);
}

}  // namespace

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      out.push_back(d);
      if (d != n / d) out.push_back(n / d);
    }
  std::ranges::sort(out);
  return out;
}

std::string excluding_axis(const PlanRequest& request) {
  const FixedAxes& fixed = request.fixed;
  const ModelShape& s = request.shape;
  int64_t ranks = 1;
  const auto divides = [](const char* axis, int64_t value, int64_t whole, const char* of) {
    return whole % value == 0 ? std::string()
                              : concat(axis, " = ", value, " does not divide ", whole, of);
  };
  for (const auto& [axis, value] : {std::pair{"tp", fixed.tp},
                                    {"cp", fixed.cp},
                                    {"pp", fixed.pp},
                                    {"dp", fixed.dp},
                                    {"shard", fixed.shard}}) {
    if (!value) continue;
    ranks *= *value;
    const std::string why = divides(axis, *value, request.gpus, " GPUs");
    if (!why.empty()) return why;
  }
  if (request.gpus % ranks != 0)
    return concat("the fixed axes need a multiple of ", ranks, " GPUs, not ", request.gpus);
  if (fixed.tp && s.heads % *fixed.tp != 0) return divides("tp", *fixed.tp, s.heads, " heads");
  if (fixed.pp && *fixed.pp > s.layers)
    return concat("pp = ", *fixed.pp, ": the model has ", s.layers, " layers");
  for (const auto& [axis, value] : {std::pair{"ep", fixed.ep}, {"etp", fixed.etp}})
    if (value && *value > 1 && s.experts == 0)
      return concat(axis, " = ", *value, ": the model has no experts");
  if (fixed.ep && s.experts > 0 && s.experts % *fixed.ep != 0)
    return divides("ep", *fixed.ep, s.experts, " experts");
  if (fixed.micro && std::ranges::find(kMicros, *fixed.micro) == std::end(kMicros))
    return concat("micro = ", *fixed.micro, ": 1, 2, 4, 8, 16 and 32 are searched");
  if (fixed.micro && request.batch % *fixed.micro != 0)
    return divides("micro", *fixed.micro, request.batch, " sequences of a step");
  return "";
}

SearchSpace::SearchSpace(const PlanRequest& request) : request_(request) {
  for (const Offload offload : {Offload::Optimizer, Offload::Activations, Offload::Both})
    if (can_offload(offload)) offloads_.push_back(offload);
  for (const int64_t tp : divisors(request.gpus)) add_tensor_ranks(tp);
}

// The host keeps what its link is known for, where the device of the cluster can run it. On GPUs
// only where it is asked for: what it costs there has not been measured.
bool SearchSpace::can_offload(Offload offload) {
  if (!is_open(request_.fixed.offload, offload)) return false;
  const bool asked = request_.fixed.offload.has_value();
  if (request_.hardware.host <= 0) {
    if (asked) refuse("offload needs node.host_gb_s of the GPU's file");
    return false;
  }
  if (request_.preset.empty() || (request_.hardware.generation != GpuGeneration::Cpu && !asked))
    return asked;
  Layout layout;
  layout.offload = offload;
  const std::string refused = refusal_of(request_, layout);
  if (!refused.empty() && asked) refuse("the configuration check: " + refused);
  return refused.empty();
}

void SearchSpace::add_tensor_ranks(int64_t tp) {
  const ModelShape& s = request_.shape;
  const int64_t widest = std::max<int64_t>(request_.hardware.domain, request_.hardware.node_gpus);
  if (!is_open(request_.fixed.tp, tp)) return;
  const bool cuts_keys = s.kv_rank > 0 || s.kv_heads % tp == 0 || tp % s.kv_heads == 0;
  if (s.heads % tp != 0 || !cuts_keys) return refuse("tp does not divide the heads");
  if (tp > widest && !request_.fixed.tp) return refuse("tp beyond the NVLink domain");
  Layout layout;
  layout.tp = static_cast<int>(tp);
  if (tp == 1) {
    if (!is_open(request_.fixed.sequence, false)) return refuse("sequence needs tp");
    return add_context(layout);
  }
  for (const bool sequence : {true, false}) {
    if (!is_open(request_.fixed.sequence, sequence)) continue;
    layout.sequence = sequence;
    if (!accepts(layout)) continue;
    add_context(layout);
    break;  // whole activations only where shards of them are refused, or asked for
  }
}

void SearchSpace::add_context(Layout layout) {
  const ModelShape& s = request_.shape;
  for (const int64_t cp : divisors(request_.gpus / layout.tp)) {
    if (cp > kMostContext || !is_open(request_.fixed.cp, cp)) continue;
    layout.cp = static_cast<int>(cp);
    if (cp == 1) {
      if (request_.fixed.cp_kind && request_.fixed.cp) refuse("cp_kind needs cp");
      layout.cp_kind = ContextKind::Ring;
      add_experts(layout);
      continue;
    }
    if (s.seq % (2 * cp) != 0 || (s.seq / cp < kLeastTokens && !request_.fixed.cp)) {
      refuse("cp leaves too few tokens, or does not divide them");
      continue;
    }
    for (const ContextKind kind :
         {ContextKind::Ring, ContextKind::Ulysses, ContextKind::AllGather}) {
      layout.cp_kind = kind;
      if (is_open(request_.fixed.cp_kind, kind) && accepts(layout)) add_experts(layout);
    }
  }
}

void SearchSpace::add_experts(Layout layout) {
  for (const int64_t ep : divisors(std::max<int64_t>(request_.shape.experts, 1))) {
    if (!is_open(request_.fixed.ep, ep)) continue;
    for (const int64_t etp : divisors(request_.shape.experts > 0 ? layout.tp : 1)) {
      if (!is_open(request_.fixed.etp, etp) || request_.gpus % (ep * etp) != 0) continue;
      layout.ep = static_cast<int>(ep);
      layout.etp = static_cast<int>(etp);
      // Whether experts divide does not depend on how sequences are cut.
      Layout alone = layout;
      alone.cp = 1;
      alone.cp_kind = ContextKind::Ring;
      if (accepts(alone)) add_offload(layout);
    }
  }
}

void SearchSpace::add_offload(const Layout& layout) {
  for (const Offload offload : offloads_) {
    if (!is_open(request_.fixed.offload, offload)) continue;
    Layout one = layout;
    one.offload = offload;
    Layout alone = one;
    alone.cp = 1;
    alone.cp_kind = ContextKind::Ring;
    if (offload == Offload::None || accepts(alone)) layouts_.push_back(one);
  }
}

// Asks the check with as few ranks as the axes take, without a pipeline, and a batch that divides.
bool SearchSpace::accepts(const Layout& layout) {
  if (request_.preset.empty()) return true;
  const std::string text = to_text(layout);
  const auto found = checked_.find(text);
  if (found != checked_.end()) return found->second;
  PlanRequest probe = request_;
  Layout whole = layout;
  whole.dp = layout.ep * layout.etp;
  probe.batch = whole.dp;
  const std::string refused = refusal_of(probe, whole);
  if (!refused.empty()) refuse("the configuration check: " + refused);
  return checked_[text] = refused.empty();
}

std::vector<ScheduleChoice> SearchSpace::schedules(int64_t pp, int64_t micros) const {
  if (pp == 1) return {{}};
  std::vector<ScheduleChoice> out;
  for (size_t i = 0; i < std::size(kSchedules); ++i) {
    const auto kind = static_cast<ScheduleKind>(i);
    if (!is_open(request_.fixed.schedule, kind) || !exists(kind, pp, micros)) continue;
    Layout layout;
    layout.pp = static_cast<int>(pp);
    layout.schedule = kind;
    for (int chunks = takes_chunks(kind) ? 2 : 1; chunks <= (takes_chunks(kind) ? kMostChunks : 1);
         ++chunks) {
      layout.chunks = chunks;
      const bool works = takes_chunks(kind) ? are_even(request_.shape.layers, layout.stages())
                                            : layout.stages() <= request_.shape.layers;
      if (works && is_open(request_.fixed.chunks, chunks)) out.push_back({kind, chunks});
    }
  }
  return out;
}

}  // namespace sextant
