#include "plan/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sextant {
namespace {

int64_t largest_divisor(int64_t n, int64_t most) {
  for (int64_t d = std::min(n, most); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

// Completes a layout to the whole cluster with data parallel ranks, and chooses the micro-batch
// and the least recomputation that fit.
RuleOfThumb judge(const PlanRequest& request, const Constants& constants, RuleOfThumb rule,
                  int zero) {
  Layout l = rule.layout;
  const int64_t inside = int64_t{1} * l.tp * l.pp;
  if (request.gpus % inside != 0) return rule;
  const int64_t data = request.gpus / inside;
  l.sequence = l.tp > 1;
  l.zero = data > 1 ? zero : 0;
  (l.zero > 0 ? l.shard : l.dp) = static_cast<int>(data);
  double best = INFINITY;
  for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full})
    for (const int64_t micro : {1, 2, 4, 8}) {
      l.micro = micro;
      l.recompute = recompute;
      if (request.batch % (data * micro) != 0) continue;
      const Case asked = case_of(request, l);
      const bool enough = fits(asked, memory_use(asked, constants));
      const double seconds = step_time(asked, constants).total();
      const bool better =
          !rule.possible || (enough && !rule.fits) || (enough == rule.fits && seconds < best);
      if (!better) continue;
      best = seconds;
      rule.possible = true;
      rule.fits = enough;
      rule.step_s = seconds;
      rule.layout = l;
    }
  return rule;
}

double states_of(const PlanRequest& request, const Layout& layout) {
  const MemoryUse use = memory_use(case_of(request, layout), Constants{});
  return use.weights + use.gradients + use.optimizer;
}

}  // namespace

std::vector<NamedTerm> named_terms(const StepTerms& t) {
  std::vector<NamedTerm> all = {{"GEMMs", t.gemm},
                                {"attention", t.attention},
                                {"element-wise work", t.elements},
                                {"kernel launches", t.launches},
                                {"recomputation", t.recompute},
                                {"exposed tensor parallel communication", t.tp},
                                {"exposed context parallel communication", t.cp},
                                {"exposed all-to-all", t.ep},
                                {"pipeline bubble and uneven stages", t.pipeline},
                                {"pipeline messages", t.messages},
                                {"exposed gradient and weight communication", t.data},
                                {"optimizer", t.optimizer},
                                {"exposed copies to and from the host", t.offload}};
  std::erase_if(all, [](const NamedTerm& term) { return std::abs(term.seconds) < 1e-12; });
  std::ranges::stable_sort(all, std::greater{}, &NamedTerm::seconds);
  return all;
}

std::string why_slower(const Plan& winner, const Plan& loser) {
  const std::vector<NamedTerm> a = named_terms(winner.time), b = named_terms(loser.time);
  const auto seconds_in = [](const std::vector<NamedTerm>& terms, const std::string& name) {
    for (const NamedTerm& term : terms)
      if (term.name == name) return term.seconds;
    return 0.0;
  };
  NamedTerm more, less;
  for (const std::vector<NamedTerm>* terms : {&a, &b})
    for (const NamedTerm& term : *terms) {
      const double change = seconds_in(b, term.name) - seconds_in(a, term.name);
      if (change > more.seconds) more = {term.name, change};
      if (change < less.seconds) less = {term.name, change};
    }
  const double slower = loser.time.total() - winner.time.total();
  if (more.name.empty()) return "it takes as long";
  std::string out = fmt::format("{:+.3g} s: {} {:+.3g} s", slower, more.name, more.seconds);
  if (!less.name.empty()) out += fmt::format(", {} {:+.3g} s", less.name, less.seconds);
  return out;
}

std::string why_fits(const MemoryUse& fitting, const MemoryUse& too_large) {
  struct Part {
    const char* name;
    double MemoryUse::*bytes;
  };
  constexpr Part kParts[] = {
      {"weights", &MemoryUse::weights},         {"gradients", &MemoryUse::gradients},
      {"optimizer", &MemoryUse::optimizer},     {"gathered layers", &MemoryUse::gathered},
      {"activations", &MemoryUse::activations}, {"logits", &MemoryUse::logits}};
  const auto saved = [&](const Part& part) { return too_large.*part.bytes - fitting.*part.bytes; };
  const Part& most = *std::ranges::max_element(kParts, {}, saved);
  return fmt::format("it fits: {:.1f} GiB, {:.1f} GiB less, of which {} {:.1f} GiB",
                     fitting.total() / kGiB, (too_large.total() - fitting.total()) / kGiB,
                     most.name, saved(most) / kGiB);
}

std::vector<Accumulation> accumulation_table(const PlanRequest& request, const Constants& constants,
                                             const Layout& layout) {
  std::vector<Accumulation> out;
  for (int64_t micros = 1; micros <= 16; micros *= 2) {
    Case asked = case_of(request, layout);
    asked.global_batch = micros * layout.micro * layout.data_ranks();
    const StepTerms t = step_time(asked, constants);
    const double waits = t.tp + t.cp + t.ep + t.pipeline + t.messages + t.data;
    out.push_back({micros, asked.global_batch, t.total(),
                   t.total() / static_cast<double>(asked.global_batch), waits / t.total()});
  }
  return out;
}

std::vector<RuleOfThumb> rules_of_thumb(const PlanRequest& request, const Constants& constants) {
  const double usable = usable_memory(request.hardware);
  const int64_t node = largest_divisor(std::min<int64_t>(request.gpus, request.hardware.node_gpus),
                                       request.shape.kv_heads);
  std::vector<RuleOfThumb> out;

  RuleOfThumb tree{"decision tree",
                   "fits on one GPU: data parallel; else pipeline, tensor parallel only if a layer "
                   "does not fit"};
  int zero = 0;
  Layout& t = tree.layout;
  if (states_of(request, t) > usable) {
    while (t.pp < request.shape.layers && t.pp < request.gpus &&
           states_of(request, t) > 0.6 * usable)
      t.pp *= 2;
    if (states_of(request, t) > 0.6 * usable) t.tp = static_cast<int>(node);
    zero = 1;
  }
  out.push_back(judge(request, constants, tree, zero));

  RuleOfThumb lesson{"device, node, cluster",
                     "not on one GPU: ZeRO or tensor parallel inside the node; not on one node: "
                     "pipeline across nodes; data parallel always"};
  if (states_of(request, lesson.layout) > usable) {
    Layout sharded = lesson.layout;
    sharded.zero = 3;
    sharded.shard = static_cast<int>(node);
    if (states_of(request, sharded) > 0.6 * usable) {
      lesson.layout.tp = static_cast<int>(node);
      while (lesson.layout.pp * node < request.gpus &&
             states_of(request, lesson.layout) > 0.6 * usable)
        lesson.layout.pp *= 2;
    }
  }
  out.push_back(judge(request, constants, lesson, lesson.layout.tp > 1 ? 1 : 3));

  RuleOfThumb slides{
      "tensor, pipeline, data",
      "tensor parallel up to the GPUs of a machine, pipeline across machines until it "
      "fits, then data parallel"};
  if (states_of(request, slides.layout) > usable) {
    slides.layout.tp = static_cast<int>(node);
    while (slides.layout.pp * node < request.gpus && slides.layout.pp < request.shape.layers &&
           states_of(request, slides.layout) > 0.6 * usable)
      slides.layout.pp *= 2;
  }
  out.push_back(judge(request, constants, slides, 0));
  return out;
}

}  // namespace sextant
