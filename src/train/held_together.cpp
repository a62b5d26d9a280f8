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

double norm_of(const GlobalTensors& gradients) {
  double squares = 0;
  for (const auto& [name, values] : gradients)
    if (!is_load_error(name))
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
  const ChosenExperts::Table chosen = step.experts ? step.experts->own() : ChosenExperts::Table();
  ChosenExperts of_reference(chosen);
  const double wanted_loss = reference_.compute_gradients(&of_reference);
  const GlobalTensors wanted = reference_.gradients();
  suspects_.clear();
  check_loss(step.loss, wanted_loss);
  const bool overflow = step.is_skipped && !is_finite(wanted_loss, wanted);  // on both sides
  if (!overflow) check_gradients(step.gradients, wanted);
  check_experts(chosen, of_reference.own());
  const StepResult reference{wanted_loss, wanted, of_reference.own()};
  if (is_narrow() && !overflow)
    judge_errors(step, {step.loss, step.gradients, chosen}, reference);
  else if (!suspects_.empty())
    judge_suspects(reference, chosen);
  if (!check_norms(step)) return;  // the ranks update by different factors
  if (step.is_skipped) {
    reference_.skip_update();
  } else {
    reference_.set_gradients(step.gradients);
    reference_.update_scaled(step.scales[0]);
  }
  check_update(step.after);
  check_replicas(step);
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
  reorderings_.compute_gradients({0, Reorderings::kCount}, report_.steps, last_, {},
                                 [&](const StepResult& result) {
                                   is_noise = is_noise || !is_finite(result.loss, result.gradients);
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

// Every rank that updates a part of a tensor has the same master weights and moments of it.
void HeldTogether::check_replicas(const WatchedStep& step) {
  const std::map<std::string, std::vector<int>> differing =
      layout_.differing_updates(step.updated, step.after);
  for (TensorVerdict& tensor : report_.tensors)
    for (const auto& [name, ranks] : differing) {
      if (name != tensor.name && !name.ends_with("." + tensor.name)) continue;
      tensor.bitwise = false;
      accuse(tensor,
             concat("step ", step_, ": the ", name == tensor.name ? "master weight" : "state",
                    " on ", rank_text(ranks), " differs from its owner's"));
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
  if (difference > floor_of(What::Loss, std::abs(wanted)))
    suspects_.push_back(
        {nullptr, difference, std::abs(wanted), difference, std::abs(wanted), What::Loss});
}

// Of the largest gradient of the layer that has this tensor.
double HeldTogether::size_in_layer(const GlobalTensors& gradients, const std::string& name) const {
  double most = 0;
  for (const LayerSpec& layer : layout_.blueprint().layers)
    if (std::ranges::count(layer.params, name, &ParamSpec::name) > 0)
      for (const ParamSpec& param : layer.params)
        if (!is_load_error(param.name)) most = std::max(most, rms(gradients.at(param.name)));
  return most;
}

void HeldTogether::check_gradients(const GlobalTensors& gradients, const GlobalTensors& wanted) {
  for (TensorVerdict& tensor : report_.tensors) {
    const std::vector<float>& got = gradients.at(tensor.name);
    const std::vector<float>& other = wanted.at(tensor.name);
    if (has_same_bits(got, other)) continue;
    tensor.bitwise = false;
    tensor.verdict = std::max(tensor.verdict, Verdict::Rounding);
    Suspect suspect{&tensor, rms_distance(got, other), rms(other), largest_distance(got, other),
                    largest(other)};
    const double rel = relative(suspect.largest, suspect.largest_size);
    if (bits_.gradients.contains(tensor.name) && !has_same_values(got, other)) {
      tensor.grad_max_rel = std::max(tensor.grad_max_rel, rel);
      accuse(tensor, concat("step ", step_, ": gradient off by ", rel,
                            " of its size; it must have the same bits"));
    } else if (suspect.distance > floor_of(What::Gradient, suspect.size)) {
      suspect.layer = size_in_layer(wanted, tensor.name);
      suspects_.push_back(suspect);
    } else {
      tensor.grad_max_rel = std::max(tensor.grad_max_rel, rel);
    }
  }
}

// Tokens whose experts the reference would not have chosen.
void HeldTogether::check_experts(const ChosenExperts::Table& experts,
                                 const ChosenExperts::Table& wanted) {
  for (TensorVerdict& tensor : report_.tensors) {
    const auto found = experts.find(tensor.name);
    if (found == experts.end()) continue;
    const ChosenExperts::Choices& choices = found->second;
    const auto differing = static_cast<double>(differing_tokens(choices, wanted.at(tensor.name)));
    if (differing > floor_of(What::Experts, choices.tokens()))
      suspects_.push_back({&tensor, differing, choices.tokens(), 0, 0, What::Experts});
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
  if (!wanted.masters.empty())
    for (TensorVerdict& tensor : report_.tensors)
      check_tensor(tensor, "updated master weight", after.masters.at(tensor.name),
                   wanted.masters.at(tensor.name), last_.masters.at(tensor.name));
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
