#pragma once
#include <string>
#include <vector>

#include "plan/layout_terms.h"
#include "plan/search.h"

namespace sextant {

// All ranks of a cluster given to one axis.
struct AxisComparison {
  std::string axis;  // "ZeRO-3"
  Layout layout;
  std::string exchanges;  // what, and how often in a step
  std::string refusal;    // why the axis cannot have so many ranks; the rest is empty then
  MemoryUse memory;
  double sent = 0;    // bytes of a rank in a step, on the axis
  int64_t batch = 0;  // sequences of the smallest step that gives every rank work
  StepTerms time;
  double exposed = 0;  // seconds of communication and waiting that nothing hides
  bool fits = false;
};

// Each axis alone, at the batch of the request: what the comparison tables of lectures say in
// words, counted. Micro-batches of one sequence, no recomputation.
std::vector<AxisComparison> compare_axes(const PlanRequest& request, const Constants& constants);

}  // namespace sextant
