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
// rounding is more than this share of the size, it alone decides the value, and such a gradient may
// be farther, as its errors have a long tail. fp8 rounds by several percent everywhere, so there
// only a gradient that is all rounding is left out.
constexpr double kFarNarrow = 2, kFloorNarrow = 1e-3, kUndecided = 0.03;
constexpr double kFarUndecided = 3;
// With fewer than two right bits one token decides, in every narrow type, so that one far step
// tells nothing. A bug makes the gradient far in every step: it is one after these steps in a row.
constexpr double kTwoBits = 0.25;
constexpr int64_t kFarSteps = 3;
// A gradient with this share of rounding has no right digit. In f32 it is zero in exact arithmetic,
// and what rounding makes of it depends on what it cancels: on the other gradients of its layer. In
// a narrow type the numbers of the step are beyond what the type resolves, and errors spread over
// decades, so that no number of reorderings bounds the next one.
constexpr double kAllRounding = 0.7;
// Rounding this many times below a limit needs no more reorderings.
constexpr double kEnough = 4;
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

bool HeldTogether::is_all_rounding(const Suspect& suspect) const {
  return suspect.what == What::Gradient && suspect.noise >= kAllRounding * suspect.size;
}

// The share of rounding from which on a gradient of a narrow type is listed as not judged.
double HeldTogether::undecided_share() const {
  return layout_.config().precision.compute == ComputeType::Fp8 ? kAllRounding : kUndecided;
}

bool HeldTogether::is_undecided(const Suspect& suspect) const {
  return is_narrow() && suspect.what == What::Gradient &&
         suspect.noise >= undecided_share() * suspect.size;
}

// More rounding makes nothing far that was not.
bool HeldTogether::is_far(const Suspect& suspect) const {
  const double floor = floor_of(suspect.what, suspect.size);
  if (suspect.what == What::Experts) return suspect.distance > kFarExperts * suspect.noise + floor;
  if (!is_narrow())
    return suspect.distance >
           kFar * suspect.noise +
               (is_all_rounding(suspect) ? floor_of(suspect.what, suspect.layer) : floor);
  if (suspect.what == What::Loss) return suspect.distance > kFarLoss * suspect.noise + floor;
  if (is_all_rounding(suspect)) return false;
  const double times = is_undecided(suspect) ? kFarUndecided : kFarNarrow;
  return suspect.distance > times * suspect.noise + kFloorNarrow * suspect.size;
}

// More reorderings would change neither the verdict nor whether it is listed as not judged.
bool HeldTogether::is_settled(const Suspect& suspect) const {
  if (is_far(suspect)) return false;
  return !is_narrow() || suspect.what != What::Gradient || is_undecided(suspect) ||
         kEnough * suspect.noise < undecided_share() * suspect.size;
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
  const auto is_settled = [this](const Suspect& suspect) { return this->is_settled(suspect); };
  const auto is_far = [this](const Suspect& suspect) { return this->is_far(suspect); };
  const auto is_plain = [this](const Suspect& suspect) {
    return !is_narrow() && this->is_far(suspect) && suspect.distance > kPlain * suspect.size;
  };
  for (int64_t number = 0; number < kAll; ++number) {
    if (number < kFew ? std::ranges::all_of(suspects_, is_settled)
                      : std::ranges::none_of(suspects_, is_far))
      break;
    if (number == kFew && std::ranges::any_of(suspects_, is_plain)) break;
    measure_noise({number, number + 1}, origin, experts);
  }
  for (const Suspect& suspect : suspects_) conclude(suspect);
}

// Whether rounding leaves fewer than two bits of a gradient.
bool HeldTogether::has_few_bits(const Suspect& suspect) const {
  return is_narrow() && suspect.what == What::Gradient && suspect.noise >= kTwoBits * suspect.size;
}

// The steps up to this one in which a gradient of few right bits was far, without a break.
int64_t HeldTogether::far_steps(const TensorVerdict& tensor) {
  FarSteps& found = far_steps_[&tensor];
  found.count = found.last + 1 == step_ ? found.count + 1 : 1;
  found.last = step_;
  return found.count;
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
  if (has_few_bits(suspect) && far_steps(*suspect.tensor) < kFarSteps) return;
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
