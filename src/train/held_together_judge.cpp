// How HeldTogether judges the differences that it found.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "train/distance.h"
#include "train/held_together.h"

namespace sextant {
namespace {

// Differences up to this share of the size are rounding; larger ones are compared with those of the
// reorderings.
constexpr double kFloor = 2e-6;
// A layout this many times as far from the reference as the farthest reordering has a bug.
constexpr double kFar = 30;
// A difference of this share of the size needs no second look.
constexpr double kPlain = 0.1;
// In narrow types, a layout's error against that of one rank, and what it may have beyond. Where
// rounding is more than this share of the size, it alone decides the value. fp8 rounds by several
// percent everywhere, so there only a gradient that is mostly rounding is left out. Such a gradient
// may be farther, as its errors have a long tail.
constexpr double kFarNarrow = 2, kFloorNarrow = 1e-3, kUndecided = 0.03, kUndecidedFp8 = 0.7;
constexpr double kFarUndecided = 3;
// Losses are means over many tokens: their errors are alike, and small.
constexpr double kFarLoss = 4;
// The same of the tokens of a router, but at least so many of them.
constexpr double kFloorExperts = 0.02, kFewTokens = 3;
// Tokens that rounding sends to other experts: so many times those of the farthest reordering.
constexpr double kFarExperts = 4;

}  // namespace

double HeldTogether::floor_of(What what, double size) {
  return what == What::Experts ? std::max(kFewTokens, kFloorExperts * size) : kFloor * size;
}

bool HeldTogether::is_narrow() const {
  return layout_.config().precision.compute != ComputeType::Fp32;
}

bool HeldTogether::is_undecided(const Suspect& suspect) const {
  const bool fp8 = layout_.config().precision.compute == ComputeType::Fp8;
  return is_narrow() && suspect.what == What::Gradient &&
         suspect.noise >= (fp8 ? kUndecidedFp8 : kUndecided) * suspect.size;
}

bool HeldTogether::is_far(const Suspect& suspect) const {
  if (suspect.what == What::Experts)
    return suspect.distance > kFarExperts * suspect.noise + floor_of(suspect.what, suspect.size);
  if (!is_narrow())
    return suspect.distance > kFar * suspect.noise + floor_of(suspect.what, suspect.size);
  if (suspect.what == What::Loss)
    return suspect.distance > kFarLoss * suspect.noise + floor_of(suspect.what, suspect.size);
  const double times = is_undecided(suspect) ? kFarUndecided : kFarNarrow;
  return suspect.distance > times * suspect.noise + kFloorNarrow * suspect.size;
}

// The layout's distance from another origin than the reference.
void HeldTogether::measure_again(const StepResult& origin, const StepResult& layout) {
  for (Suspect& suspect : suspects_) {
    if (suspect.what == What::Loss) {
      suspect.distance = distance(layout.loss, origin.loss);
      suspect.size = std::abs(origin.loss);
      continue;
    }
    const std::string& name = suspect.tensor->name;
    if (suspect.what == What::Experts) {
      suspect.distance =
          static_cast<double>(differing_tokens(layout.experts.at(name), origin.experts.at(name)));
      continue;
    }
    suspect.distance = rms_distance(layout.gradients.at(name), origin.gradients.at(name));
    suspect.size = rms(origin.gradients.at(name));
  }
}

void HeldTogether::add_noise(const StepResult& origin, const StepResult& other) {
  for (Suspect& suspect : suspects_) {
    const auto far = [&](auto&& measure) {
      if (suspect.what == What::Loss) return distance(other.loss, origin.loss);
      const std::string& name = suspect.tensor->name;
      if (suspect.what == What::Experts)
        return static_cast<double>(
            differing_tokens(other.experts.at(name), origin.experts.at(name)));
      return measure(other.gradients.at(name), origin.gradients.at(name));
    };
    suspect.noise = std::max(suspect.noise, far(rms_distance));
    suspect.largest_noise = std::max(suspect.largest_noise, far(largest_distance));
  }
}

void HeldTogether::measure_noise(const Range& reorderings, const StepResult& origin,
                                 const ChosenExperts::Table& experts) {
  reorderings_.compute_gradients(reorderings, step_ - 1, last_, experts,
                                 [&](const StepResult& result) { add_noise(origin, result); });
}

void HeldTogether::note_errors(const StepResult& exact, const StepResult& layout,
                               const StepResult& reference) {
  for (TensorVerdict& tensor : report_.tensors) {
    const std::vector<float>& wanted = exact.gradients.at(tensor.name);
    const double size = rms(wanted);
    const double error = relative(rms_distance(layout.gradients.at(tensor.name), wanted), size);
    if (error < tensor.error_rel) continue;
    tensor.error_rel = error;
    tensor.reference_error_rel =
        relative(rms_distance(reference.gradients.at(tensor.name), wanted), size);
  }
}

// In narrow types the errors of both are compared: one reordering may round as the reference does,
// and then tells nothing of another layout.
void HeldTogether::judge_errors(const WatchedStep& step, const StepResult& layout,
                                const StepResult& reference) {
  const ExactRun::Result exact =
      exact_.compute_gradients(step_ - 1, last_, layout.experts, step.loss_scale);
  const StepResult origin{exact.loss, exact.gradients, exact.experts};
  note_errors(origin, layout, reference);
  if (suspects_.empty()) return;
  measure_again(origin, layout);
  add_noise(origin, reference);
  judge_suspects(origin, layout.experts);
}

void HeldTogether::judge_suspects(const StepResult& origin, const ChosenExperts::Table& experts) {
  constexpr int64_t kFew = Reorderings::kCount, kAll = kFew + Reorderings::kMore;
  const auto far = [this](const Suspect& suspect) { return is_far(suspect); };
  measure_noise({0, kFew}, origin, experts);
  const bool is_plain = !is_narrow() && std::ranges::any_of(suspects_, [&](const Suspect& suspect) {
    return far(suspect) && suspect.distance > kPlain * suspect.size;
  });
  if (!is_plain && std::ranges::any_of(suspects_, far))
    measure_noise({kFew, kAll}, origin, experts);
  for (const Suspect& suspect : suspects_) conclude(suspect);
}

void HeldTogether::conclude(const Suspect& suspect) {
  const double rel =
      relative(suspect.largest, std::max(suspect.largest_size, suspect.largest_noise));
  const std::string times =
      concat(relative(suspect.distance, suspect.noise), " times as far as rounding");
  if (suspect.what == What::Gradient) {
    suspect.tensor->grad_max_rel = std::max(suspect.tensor->grad_max_rel, rel);
    if (is_undecided(suspect)) suspect.tensor->is_judged = false;
  }
  if (!is_far(suspect)) return;
  if (suspect.what == What::Loss)
    accuse(concat("step ", step_, ": loss off by ", rel, " of its size, ", times));
  else if (suspect.what == What::Experts)
    accuse(*suspect.tensor, concat("step ", step_, ": ", suspect.distance, " of ", suspect.size,
                                   " tokens go to other experts; rounding sends ", suspect.noise));
  else
    accuse(*suspect.tensor,
           concat("step ", step_, ": gradient off by ", rel, " of its size, ", times));
}

}  // namespace sextant
