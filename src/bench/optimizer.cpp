#include "bench/optimizer.h"

#include <algorithm>
#include <limits>

#include "bench/cpu/memory_floor.h"
#include "ops/adamw.h"
#include "ops/random_fill.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

template <class F>
double seconds_of(const Clock& clock, F&& f) {
  const double begin = clock.now();
  f();
  return clock.now() - begin;
}

}  // namespace

OptimizerTimes bench_adamw(Stream& stream, const Clock& clock, int64_t elements, int repeats) {
  SXT_CHECK(elements > 0 && repeats > 0, Usage, "bench adamw: elements=", elements,
            " repeats=", repeats, ", must be positive");
  const auto make = [&](Category category) {
    Tensor tensor = stream.arena().allocate(category, DType::F32, {elements});
    fill_constant(stream, tensor, 1e-3);  // touches the pages before timing
    return tensor;
  };
  Tensor weight = make(Category::Weights), first = make(Category::Optimizer);
  Tensor second = make(Category::Optimizer);
  const Tensor gradient = make(Category::Gradients);
  const AdamWPart part{weight, first, second, gradient, 0.1};
  Tensor scalars = stream.arena().allocate(Category::Workspace, DType::F64, {kUpdateScalars});
  copy_from_host<double>(stream, scalars, UpdateScalars{1e-3, 0.1, 1e-3, 1, 1, 1, 0});
  constexpr double kNever = std::numeric_limits<double>::infinity();
  OptimizerTimes times{elements, kNever, kNever};
  for (int i = 0; i < repeats; ++i) {
    times.floor_seconds =
        std::min(times.floor_seconds,
                 seconds_of(clock, [&] { memory_floor(stream, weight, first, second, gradient); }));
    times.adamw_seconds = std::min(times.adamw_seconds, seconds_of(clock, [&] {
                                     adamw(stream, {&part, 1}, scalars, {});
                                   }));
  }
  return times;
}

}  // namespace sextant
