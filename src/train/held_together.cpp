#include "train/held_together.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/parse.h"
#include "optim/clip.h"
#include "train/distance.h"

namespace sextant {
namespace {

// Differences up to this share of a gradient's size are rounding; larger ones are compared with
// those of the reorderings.
constexpr double kFloor = 2e-6;
// A layout this many times as far from the reference as the farthest reordering has a bug.
constexpr double kFar = 30;
// A difference of this share of the size needs no second look.
constexpr double kPlain = 0.1;
// In narrow types, a layout's error against that of one rank, and what it may have beyond. Where
// rounding is more than this share of the size, it alone decides the value. fp8 rounds by several
// percent everywhere, so there only a gradient that is mostly rounding is left out.
constexpr double kFarNarrow = 2, kFloorNarrow = 1e-3, kUndecided = 0.03, kUndecidedFp8 = 0.7;
constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

std::string rank_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (const int rank : ranks) text += " " + std::to_string(rank);
  return text;
}

std::string sample_text(const MicroSlice& slice) {
  if (slice.count == 0) return "no samples";
  if (slice.count == 1) return concat("sample ", slice.first);
  return concat("samples ", slice.first, " to ", slice.first + slice.count - 1);
}

// The load error of a router's bias or load is no gradient.
double norm_of(const GlobalTensors& gradients) {
  double squares = 0;
  for (const auto& [name, values] : gradients)
    if (!name.ends_with(".router.bias") && !name.ends_with(".router.load"))
      for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

bool is_finite(double loss, const GlobalTensors& gradients) {
  return std::isfinite(loss) && std::isfinite(norm_of(gradients));
}

}  // namespace

HeldTogether::HeldTogether(LayoutRun& layout, LayoutRun& reference, Reorderings& reorderings,
                           ExactRun& exact, const EqualBits& bits, VerifyReport& report)
    : layout_(layout),
      reference_(reference),
      reorderings_(reorderings),
      exact_(exact),
      bits_(bits),
      report_(report) {
  report_.is_narrow = is_narrow();
}

void HeldTogether::accuse(const std::string& problem) {
  has_found_ = true;
  report_.problems.push_back(problem);
}

void HeldTogether::accuse(TensorVerdict& tensor, const std::string& problem) {
  has_found_ = true;
  if (tensor.verdict == Verdict::Bug) return;
  tensor.verdict = Verdict::Bug;
  tensor.problem = problem;
}

void HeldTogether::check_start() {
  start_ = last_ = layout_.state();
  const GlobalState wanted = reference_.state();
  for (TensorVerdict& tensor : report_.tensors)
    if (!has_same_bits(start_.weights.at(tensor.name), wanted.weights.at(tensor.name))) {
      tensor.bitwise = false;
      accuse(tensor, "starts with other values than the reference");
    }
  if (!has_found_) check_copies(layout_.kept_weights());
}

void HeldTogether::check_step(const WatchedStep& step) {
  step_ = report_.steps + 1;
  check_copies(step.weights_used);
  if (has_found_) return;  // in the step before
  report_.steps = step_;
  check_samples(step);
  if (has_found_) return;  // gradients of other samples
  check_statistics(step);
  const double wanted_loss = reference_.compute_gradients();
  const GlobalTensors wanted = reference_.gradients();
  suspects_.clear();
  check_loss(step.loss, wanted_loss);
  const bool overflow = step.is_skipped && !is_finite(wanted_loss, wanted);  // on both sides
  if (!overflow) check_gradients(step.gradients, wanted);
  const Origin reference{wanted_loss, wanted};
  if (is_narrow() && !overflow)
    judge_errors(step, reference);
  else if (!suspects_.empty())
    judge_suspects(reference);
  if (!check_norms(step)) return;  // the ranks update by different factors
  if (step.is_skipped) {
    reference_.skip_update();
  } else {
    reference_.set_gradients(step.gradients);
    reference_.update_scaled(step.scales[0]);
  }
  check_update(step.after);
  check_amax_histories(step);
  last_ = step.after;
}

void HeldTogether::check_end() {
  step_ = report_.steps + 1;
  check_copies(layout_.kept_weights());
}

void HeldTogether::check_not_finite(const std::string& error) {
  step_ = report_.steps + 1;
  const double loss = reference_.compute_gradients();
  const GlobalTensors gradients = reference_.gradients();
  if (!is_finite(loss, gradients)) return;
  bool is_noise = false;
  reorderings_.compute_gradients({0, Reorderings::kCount}, report_.steps, last_,
                                 [&](double reordering, const GlobalTensors& of_reordering) {
                                   is_noise = is_noise || !is_finite(reordering, of_reordering);
                                 });
  if (!is_noise)
    accuse(concat(error, ": but from the same weights the reference has the loss ", loss,
                  " and the gradient norm ", norm_of(gradients)));
}

// Ranks with the same samples, and the samples of a step: each exactly once.
void HeldTogether::check_samples(const WatchedStep& step) {
  const Config& config = layout_.config();
  const int64_t first = (step_ - 1) * config.batch.global;
  const int data = data_ranks(config.parallel);
  const int inside = config.parallel.cp * config.parallel.tp;  // ranks that share samples
  std::vector<int> reader(static_cast<size_t>(config.batch.global), -1);
  for (size_t rank = 0; rank < step.samples.size(); ++rank) {
    const int place = static_cast<int>(rank) / inside % data;  // among the data parallel ranks
    for (int micro = 0; micro < static_cast<int>(step.samples[rank].size()); ++micro) {
      const MicroSlice& read = step.samples[rank][static_cast<size_t>(micro)];
      MicroSlice wanted = micro_slice(config.batch, data, place, micro);
      wanted.first += first;
      if (read == wanted) continue;
      if (read.count == 0 && wanted.count == 0) continue;
      accuse(concat("step ", step_, ", rank ", rank, ", micro-batch ", micro, ": read ",
                    sample_text(read), ", the data plan gives it ", sample_text(wanted)));
      return;
    }
    if (static_cast<int>(rank) % inside != 0 || static_cast<int>(rank) / inside >= data) continue;
    for (const MicroSlice& read : step.samples[rank])
      for (int64_t sample = read.first; sample < read.first + read.count; ++sample) {
        int& other = reader[static_cast<size_t>(sample - first)];
        if (other >= 0)
          return accuse(concat("step ", step_, ": ranks ", other, " and ", rank,
                               " both read sample ", sample));
        other = static_cast<int>(rank);
      }
  }
  const auto unread = std::ranges::find(reader, -1);
  if (unread != reader.end())
    accuse(concat("step ", step_, ": no rank read sample ", first + (unread - reader.begin())));
}

void HeldTogether::check_copies(const std::vector<std::vector<std::string>>& digests) {
  const std::map<std::string, std::vector<int>> differing =
      layout_.differing_replicas(digests, last_.weights);
  for (TensorVerdict& tensor : report_.tensors) {
    const auto found = differing.find(tensor.name);
    if (found == differing.end()) continue;
    tensor.bitwise = false;
    accuse(tensor, concat(step_ <= 1 ? std::string("before step 1") : concat("step ", step_ - 1),
                          ": the copy on ", rank_text(found->second), " differs from its owner's"));
  }
}

// Ranks with parts of a tensor or with other micro-batches of it have the same scale for it.
void HeldTogether::check_amax_histories(const WatchedStep& step) {
  for (TensorVerdict& tensor : report_.tensors) {
    const std::string name = concat(kAmaxHistory, tensor.name);
    std::vector<int> differing;
    for (size_t rank = 0; rank < step.amax_histories.size(); ++rank) {
      const auto own = step.amax_histories[rank].find(name);
      if (own != step.amax_histories[rank].end() &&
          !has_same_bits(own->second, step.after.amax_histories.at(name)))
        differing.push_back(static_cast<int>(rank));
    }
    if (!differing.empty())
      accuse(tensor, concat("step ", step_, ": the history of fp8 scales on ", rank_text(differing),
                            " differs from its owner's"));
  }
}

// Whatever they change: in narrow types it is within rounding.
void HeldTogether::check_statistics(const WatchedStep& step) {
  for (TensorVerdict& tensor : report_.tensors) {
    std::vector<int> narrow;
    for (size_t rank = 0; rank < step.narrow_statistics.size(); ++rank)
      if (std::ranges::count(step.narrow_statistics[rank], tensor.name) > 0)
        narrow.push_back(static_cast<int>(rank));
    if (!narrow.empty())
      accuse(tensor, concat("step ", step_, ": its statistics on ", rank_text(narrow),
                            " are narrower than fp32"));
  }
}

void HeldTogether::check_loss(double loss, double wanted) {
  if (loss == wanted) return;
  report_.bitwise = false;
  const double difference = distance(loss, wanted);
  report_.loss_max_rel = std::max(report_.loss_max_rel, relative(difference, std::abs(wanted)));
  if (bits_.loss)
    return accuse(concat("step ", step_, ": loss ", loss, " against ", wanted,
                         "; it must have the same bits"));
  if (difference > kFloor * std::abs(wanted))
    suspects_.push_back({nullptr, difference, std::abs(wanted), difference, std::abs(wanted)});
}

void HeldTogether::check_gradients(const GlobalTensors& gradients, const GlobalTensors& wanted) {
  for (TensorVerdict& tensor : report_.tensors) {
    const std::vector<float>& got = gradients.at(tensor.name);
    const std::vector<float>& other = wanted.at(tensor.name);
    if (has_same_bits(got, other)) continue;
    tensor.bitwise = false;
    tensor.verdict = std::max(tensor.verdict, Verdict::Rounding);
    const Suspect suspect{&tensor, rms_distance(got, other), rms(other),
                          largest_distance(got, other), largest(other)};
    const double rel = relative(suspect.largest, suspect.largest_size);
    if (bits_.gradients.contains(tensor.name) && !has_same_values(got, other)) {
      tensor.grad_max_rel = std::max(tensor.grad_max_rel, rel);
      accuse(tensor, concat("step ", step_, ": gradient off by ", rel,
                            " of its size; it must have the same bits"));
    } else if (suspect.distance > kFloor * suspect.size) {
      suspects_.push_back(suspect);
    } else {
      tensor.grad_max_rel = std::max(tensor.grad_max_rel, rel);
    }
  }
}

bool HeldTogether::is_narrow() const {
  return layout_.config().precision.compute != ComputeType::Fp32;
}

bool HeldTogether::is_undecided(const Suspect& suspect) const {
  const bool fp8 = layout_.config().precision.compute == ComputeType::Fp8;
  return is_narrow() && suspect.noise >= (fp8 ? kUndecidedFp8 : kUndecided) * suspect.size;
}

bool HeldTogether::is_far(const Suspect& suspect) const {
  if (is_undecided(suspect)) return false;
  return suspect.distance > (is_narrow() ? kFarNarrow : kFar) * suspect.noise +
                                (is_narrow() ? kFloorNarrow : kFloor) * suspect.size;
}

// The layout's distance from another origin than the reference.
void HeldTogether::measure_again(const Origin& origin, const WatchedStep& step) {
  for (Suspect& suspect : suspects_) {
    if (suspect.tensor == nullptr) {
      suspect.distance = distance(step.loss, origin.loss);
      suspect.size = std::abs(origin.loss);
      continue;
    }
    const std::string& name = suspect.tensor->name;
    suspect.distance = rms_distance(step.gradients.at(name), origin.gradients.at(name));
    suspect.size = rms(origin.gradients.at(name));
  }
}

void HeldTogether::add_noise(const Origin& origin, double loss, const GlobalTensors& gradients) {
  for (Suspect& suspect : suspects_) {
    const auto far = [&](auto&& measure) {
      return suspect.tensor == nullptr ? distance(loss, origin.loss)
                                       : measure(gradients.at(suspect.tensor->name),
                                                 origin.gradients.at(suspect.tensor->name));
    };
    suspect.noise = std::max(suspect.noise, far(rms_distance));
    suspect.largest_noise = std::max(suspect.largest_noise, far(largest_distance));
  }
}

void HeldTogether::measure_noise(const Range& reorderings, const Origin& origin) {
  reorderings_.compute_gradients(
      reorderings, step_ - 1, last_,
      [&](double loss, const GlobalTensors& gradients) { add_noise(origin, loss, gradients); });
}

void HeldTogether::note_errors(const Origin& exact, const WatchedStep& step,
                               const Origin& reference) {
  for (TensorVerdict& tensor : report_.tensors) {
    const std::vector<float>& wanted = exact.gradients.at(tensor.name);
    const double size = rms(wanted);
    const double error = relative(rms_distance(step.gradients.at(tensor.name), wanted), size);
    if (error < tensor.error_rel) continue;
    tensor.error_rel = error;
    tensor.reference_error_rel =
        relative(rms_distance(reference.gradients.at(tensor.name), wanted), size);
  }
}

// In narrow types the errors of both are compared: one reordering may round as the reference does,
// and then tells nothing of another layout.
void HeldTogether::judge_errors(const WatchedStep& step, const Origin& reference) {
  const ExactRun::Result exact = exact_.compute_gradients(step_ - 1, last_, step.loss_scale);
  const Origin origin{exact.loss, exact.gradients};
  note_errors(origin, step, reference);
  if (suspects_.empty()) return;
  measure_again(origin, step);
  add_noise(origin, reference.loss, reference.gradients);
  judge_suspects(origin);
}

void HeldTogether::judge_suspects(const Origin& origin) {
  constexpr int64_t kFew = Reorderings::kCount, kAll = kFew + Reorderings::kMore;
  const auto far = [this](const Suspect& suspect) { return is_far(suspect); };
  measure_noise({0, kFew}, origin);
  const bool is_plain = !is_narrow() && std::ranges::any_of(suspects_, [&](const Suspect& suspect) {
    return far(suspect) && suspect.distance > kPlain * suspect.size;
  });
  if (!is_plain && std::ranges::any_of(suspects_, far)) measure_noise({kFew, kAll}, origin);
  for (const Suspect& suspect : suspects_) {
    const double rel =
        relative(suspect.largest, std::max(suspect.largest_size, suspect.largest_noise));
    const std::string times =
        concat(relative(suspect.distance, suspect.noise), " times as far as rounding");
    if (suspect.tensor == nullptr) {
      if (far(suspect))
        accuse(concat("step ", step_, ": loss off by ", rel, " of its size, ", times));
      continue;
    }
    suspect.tensor->grad_max_rel = std::max(suspect.tensor->grad_max_rel, rel);
    if (is_undecided(suspect)) suspect.tensor->is_judged = false;
    if (far(suspect))
      accuse(*suspect.tensor,
             concat("step ", step_, ": gradient off by ", rel, " of its size, ", times));
  }
}

// Every rank clips by the norm of the gathered gradients, up to one rounding to f32.
bool HeldTogether::check_norms(const WatchedStep& step) {
  const double wanted = norm_of(step.gradients) / step.loss_scale;
  const double clip = layout_.config().optim.clip;
  for (size_t rank = 0; rank < step.norms.size(); ++rank) {
    const double norm = step.norms[rank], scale = step.scales[rank] * step.loss_scale;
    if (step.is_skipped) {
      if (!std::isfinite(norm)) continue;
      accuse(concat("step ", step_, ", rank ", rank, ": gradient norm ", norm,
                    " in a step that rank 0 skipped"));
      return false;
    }
    const double rel = relative(distance(norm, wanted), wanted);
    report_.norm_max_rel = std::max(report_.norm_max_rel, rel);
    if (!(rel <= kEpsilon)) {
      accuse(concat("step ", step_, ", rank ", rank, ": gradient norm ", norm,
                    ", that of the gathered gradients is ", wanted));
      return false;
    }
    if (!(distance(scale, clip_scale(norm, clip)) <= kEpsilon)) {
      accuse(concat("step ", step_, ", rank ", rank, ": gradients scaled by ", scale, ", the norm ",
                    norm, " gives ", clip_scale(norm, clip)));
      return false;
    }
  }
  return true;
}

void HeldTogether::check_update(const GlobalState& after) {
  const GlobalState wanted = reference_.state();
  for (TensorVerdict& tensor : report_.tensors)
    check_tensor(tensor, "updated weight", after.weights.at(tensor.name),
                 wanted.weights.at(tensor.name), last_.weights.at(tensor.name));
  for (const auto& [name, values] : after.optimizer)
    for (TensorVerdict& tensor : report_.tensors)
      if (name.ends_with("." + tensor.name))
        check_tensor(tensor, name.substr(0, name.size() - tensor.name.size() - 1), values,
                     wanted.optimizer.at(name), last_.optimizer.at(name));
}

// An update works element by element: from equal gradients it has equal bits.
void HeldTogether::check_tensor(TensorVerdict& tensor, const std::string& what,
                                std::span<const float> got, std::span<const float> wanted,
                                std::span<const float> before) {
  if (has_same_bits(got, wanted)) return;
  tensor.bitwise = false;
  const double rel = relative(largest_distance(got, wanted), largest_distance(wanted, before));
  tensor.update_max_rel = std::max(tensor.update_max_rel, rel);
  accuse(tensor, concat("step ", step_, ": ", what, " off by ", rel, " of its update"));
}

}  // namespace sextant
