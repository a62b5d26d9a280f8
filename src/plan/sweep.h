#pragma once
#include <optional>
#include <string>
#include <vector>

#include "plan/search.h"

namespace sextant {

enum class SweptAxis { Gpus, Batch, Micro };

// "gpus=64..1024" (doubling), "batch=256,512", "micro=1,2,4". Error(Usage) for anything else.
struct SweepRequest {
  SweptAxis axis = SweptAxis::Gpus;
  std::vector<int64_t> values;
};
SweepRequest parse_sweep(const std::string& text);
const char* name_of(SweptAxis axis);

// The best plan at each value, or why there is none.
struct SweepPoint {
  int64_t value = 0, gpus = 0;
  std::optional<Plan> plan;
  double communication = 0;  // exposed seconds of the best plan, pipeline messages not counted
  std::string reason;
  std::vector<std::string> warnings;  // of the search
};
std::vector<SweepPoint> sweep_plans(const PlanRequest& request, const SweepRequest& sweep,
                                    const Constants& constants);

// Step time and MFU over the values.
std::string sweep_picture(const SweepRequest& sweep, const std::vector<SweepPoint>& points,
                          const std::string& title);

}  // namespace sextant
