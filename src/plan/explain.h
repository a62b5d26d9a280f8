#pragma once
#include <string>
#include <vector>

#include "plan/search.h"

namespace sextant {

// A term of a step's time in words, with its seconds.
struct NamedTerm {
  std::string name;
  double seconds = 0;
};
// The terms that are not zero, largest first.
std::vector<NamedTerm> named_terms(const StepTerms& time);

// Why `loser` takes longer than `winner`: the term that grew most, and what grew less.
std::string why_slower(const Plan& winner, const Plan& loser);
// "it fits: 17.6 GiB, 80.1 GiB less, of which activations 75.2 GiB", of a layout against one that
// does not fit.
std::string why_fits(const MemoryUse& fitting, const MemoryUse& too_large);

// The same layout with more micro-batches per step: accumulation spreads what is sent once a step.
struct Accumulation {
  int64_t micros = 1, batch = 0;
  double seconds = 0;       // per step
  double per_sequence = 0;  // seconds
  double exposed = 0;       // share of the step: communication and pipeline
};
std::vector<Accumulation> accumulation_table(const PlanRequest& request, const Constants& constants,
                                             const Layout& layout);

// What a rule of thumb would choose, and what the numbers say of it.
struct RuleOfThumb {
  std::string name;
  std::string says;
  Layout layout = {};
  bool possible = false;  // the layout exists for this request
  bool fits = false;
  double step_s = 0;
};
// Three sets of rules that are taught, which disagree.
std::vector<RuleOfThumb> rules_of_thumb(const PlanRequest& request, const Constants& constants);

}  // namespace sextant
