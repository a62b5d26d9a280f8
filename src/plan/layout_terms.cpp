#include "plan/layout_terms.h"

#include <algorithm>

#include "base/error.h"
#include "plan/collective.h"
#include "plan/explain.h"

namespace sextant {
namespace {

std::string bound_of(const std::string& name, double bytes) {
  if (name == "GEMMs" || name == "attention" || name == "recomputation") return "compute";
  if (name == "element-wise work" || name == "optimizer") return "memory";
  if (name == "kernel launches") return "latency";
  return bytes > 0 ? "network" : "waiting";
}

// Of the embedding and the head, what lies on one stage; middle stages have neither.
double ends_on_stage(const Case& asked, const Parameters& counts) {
  if (asked.practice.only_layers || asked.layout.pp > 2) return 0;
  if (asked.layout.pp == 1) return counts.embedding + counts.head;
  return std::max(counts.embedding, counts.head);
}

}  // namespace

AxisBytes axis_bytes(const Case& asked) {
  const Layout& l = asked.layout;
  const ModelShape& s = asked.shape;
  const double micros = static_cast<double>(std::max<int64_t>(asked.micros(), 1));
  const double layers = stage_layers(asked).middle;
  const double tokens = static_cast<double>(l.micro * s.seq) / l.cp;
  const double hidden = tokens * static_cast<double>(s.hidden) * 2;
  const double again = l.recompute == Recompute::Full ? 1.5 : 1;
  AxisBytes out;
  // Two pairs of collectives a layer each way; an all-reduce, or an all-gather and a
  // reduce-scatter, sends 2 (t - 1) / t of the buffer.
  const double t = l.tp, c = l.cp;
  out.tp = micros * layers * 8 * (t - 1) / t * hidden * again;
  const double kv = tokens * std::max(static_cast<double>(s.kv_heads) / t, 1.0) *
                    static_cast<double>(s.head_dim) * 2 * 2;
  out.cp = micros * layers * (c - 1) * kv * (2 + again);
  if (l.pp > 1)
    out.pp = micros * static_cast<double>(l.stages()) / l.pp * 2 * hidden / (l.sequence ? t : 1);
  const Parameters counts = count_parameters(s);
  const double times = l.zero >= 2 && (l.pp == 1 || asked.practice.each_micro) ? micros : 1;
  const auto data = [&](double count, double sharded, double copies) {
    const double gathers = l.zero == 3 ? 2 * times : 1, reduce = asked.numerics.reduce_bytes;
    const double between = 2 * (copies - 1) / copies * reduce;  // an all-reduce
    if (l.zero == 0) return count * 2 * (copies * sharded - 1) / (copies * sharded) * reduce;
    return count * ((sharded - 1) / sharded * (reduce * times + 2 * gathers) + between / sharded);
  };
  const bool sparse = s.experts > 0;
  const double dense = sparse ? counts.expert_layer - counts.experts : counts.layer;
  out.data = data((layers * dense + ends_on_stage(asked, counts)) / t, l.shard * c, l.dp);
  if (!sparse) return out;
  const double inside = static_cast<double>(l.ep) * l.etp;
  const double copies = inside > 1 ? 1 : l.dp;
  out.data += data(layers * counts.experts / inside,
                   static_cast<double>(l.expert_copies()) / copies, copies);
  // Dispatch and combine, each way.
  const double routed = hidden / t * static_cast<double>(s.experts_per_token);
  out.ep = micros * layers * 4 * (l.ep - 1.0) / l.ep * routed * again;
  return out;
}

std::vector<LayoutTerm> layout_terms(const Case& asked, const Constants& constants) {
  const AxisBytes bytes = axis_bytes(asked);
  std::vector<LayoutTerm> out;
  for (const NamedTerm& term : named_terms(simulated_step_time(asked, constants, 200'000))) {
    LayoutTerm one{term.name, term.seconds, 0, ""};
    if (term.name.find("tensor parallel") != std::string::npos) one.bytes = bytes.tp;
    if (term.name.find("context parallel") != std::string::npos) one.bytes = bytes.cp;
    if (term.name.find("all-to-all") != std::string::npos) one.bytes = bytes.ep;
    if (term.name.find("gradient") != std::string::npos) one.bytes = bytes.data;
    if (term.name.find("pipeline") != std::string::npos) one.bytes = bytes.pp;
    one.bound =
        term.name.starts_with("pipeline bubble") ? "waiting" : bound_of(term.name, one.bytes);
    out.push_back(one);
  }
  return out;
}

double balanced_bytes(const Hardware& hardware, const Constants& constants, int64_t ranks,
                      int64_t stride, int64_t world) {
  const LinkGroup group = group_of(ranks, stride, hardware, world);
  const double latency =
      collective_seconds(hardware, constants, CollectiveKind::AllGather, 0, group);
  const double n = static_cast<double>(ranks);
  return latency * bus_rate(hardware, constants, group) * n / std::max(n - 1, 1.0);
}

std::vector<NetworkLevel> network_levels(const Case& asked, const Constants& constants) {
  const Hardware& hardware = asked.hardware;
  const auto level = [&](const char* name, const LinkGroup& group) {
    const auto send = [&](double bytes) {
      return collective_seconds(hardware, constants, CollectiveKind::Send, bytes, group);
    };
    constexpr double kMegabyte = 1e6;
    return NetworkLevel{name, send(0), kMegabyte / (send(kMegabyte) - send(0))};
  };
  std::vector<NetworkLevel> out;
  if (hardware.domain > 1) out.push_back(level("NVLink domain", {2, 2, 2}));
  if (asked.layout.world() > hardware.domain) out.push_back(level("network", {2, 1, 1}));
  return out;
}

std::vector<AxisLatency> axis_latencies(const Case& asked, const Constants& constants) {
  const Layout& l = asked.layout;
  const int64_t world = l.world();
  std::vector<AxisLatency> out;
  const auto add = [&](const char* axis, int64_t ranks, int64_t stride) {
    if (ranks <= 1) return;
    const LinkGroup group = group_of(ranks, stride, asked.hardware, world);
    out.push_back(
        {axis, ranks,
         collective_seconds(asked.hardware, constants, CollectiveKind::AllGather, 0, group),
         balanced_bytes(asked.hardware, constants, ranks, stride, world)});
  };
  add("tp", l.tp, 1);
  add("cp", l.cp, l.tp);
  add("ep", l.ep, l.etp);
  add("shard", int64_t{1} * l.shard * l.cp, l.tp);
  add("dp", l.dp, int64_t{1} * l.tp * l.cp * l.shard);
  add("pp", l.pp > 1 ? 2 : 1, world / l.pp);
  return out;
}

StatesOrActivations states_or_activations(const Case& asked) {
  const ModelShape& s = asked.shape;
  const Parameters counts = count_parameters(s);
  const double layer = s.experts > 0 ? counts.expert_layer : counts.layer;
  const double hidden = static_cast<double>(s.hidden);
  StatesOrActivations out;
  // Weights are gathered in forward and backward and gradients reduced; tensor parallel sends 8
  // times two bytes of each hidden value.
  out.parameter_bytes = layer * (2 * 2 + asked.numerics.reduce_bytes);
  out.tokens = static_cast<double>(asked.layout.micro * s.seq) / asked.layout.cp;
  out.activation_bytes = 16 * out.tokens * hidden;
  out.equal_tokens = out.parameter_bytes / (16 * hidden);
  return out;
}

}  // namespace sextant
