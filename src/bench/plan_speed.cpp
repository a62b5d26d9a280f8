#include "bench/plan_speed.h"

#include <algorithm>
#include <cmath>

#include "config/model_presets.h"
#include "plan/search.h"
#include "train/plan_dry_run.h"

namespace sextant {

PlanSpeed bench_plan(int repeats, Storage& storage, const Clock& clock) {
  PlanRequest request;
  request.shape = shape_of(*model_preset("llama-405b"), 8192);
  request.hardware = find_hardware(storage, "H100");
  request.gpus = 16384;
  request.batch = 2048;
  request.practice.attention = AttentionKernel::Library;
  request.practice.own = request.practice.each_micro = true;
  const Constants constants;
  PlanSpeed out;
  out.closed_s = out.search_s = INFINITY;
  for (int i = 0; i < repeats; ++i) {
    request.preset.clear();
    request.refined = 0;
    request.plans = 1;
    request.dry_run = {};
    double start = clock.now();
    out.evaluated = search_plans(request, constants).evaluated;
    out.closed_s = std::min(out.closed_s, clock.now() - start);
    request.preset = "llama-405b";
    request.refined = 100;
    request.plans = 10;
    request.dry_run = dry_runner();
    start = clock.now();
    out.simulated = search_plans(request, constants).simulated;
    out.search_s = std::min(out.search_s, clock.now() - start);
  }
  out.layouts_per_s = static_cast<double>(out.evaluated) / out.closed_s;
  return out;
}

}  // namespace sextant
