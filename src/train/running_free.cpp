#include "train/running_free.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/last_bit.h"
#include "optim/clip.h"
#include "train/distance.h"

namespace sextant {
namespace {

// A tensor this close to the reference's, relative to its update, is not looked at further.
constexpr double kFreeFloor = 1e-3, kFreeFloorNarrow = 0.1;
// Training amplifies differences, so reorderings spread over decades: farther than for one step.
constexpr double kFreeFar = 100;
// Where reorderings differ by this share of an update, rounding alone decides it.
constexpr double kFreeUndecided = 0.1;
// From the step on whose losses or norms differ by this share between reorderings, training is
// chaotic: the rest is not judged.
constexpr double kChaotic = 0.01;

// One number or tensor of the two runs, and how far the reorderings are from the reference's.
struct Suspect {
  std::string what;
  TensorVerdict* tensor = nullptr;  // null: a loss or a norm
  double distance = 0, size = 0;
  double noise = 0;
  double last_bit = 0;                            // of values of this size
  std::function<double(const FreeRun&)> measure;  // distance of another run from the reference
};

class FreeComparison {
 public:
  FreeComparison(const FreeRun& layout, const FreeRun& reference, const Config& config,
                 VerifyReport& report)
      : layout_(layout),
        reference_(reference),
        clip_(config.optim.clip),
        floor_(config.precision.compute == ComputeType::Fp32 ? kFreeFloor : kFreeFloorNarrow),
        types_(number_types(config.precision)),
        report_(report) {
    list_numbers();
    list_tensors();
  }

  bool has_same_bits() const {
    for (size_t i = 0; i < reference_.records.size(); ++i)
      if (layout_.records[i].loss != reference_.records[i].loss ||
          layout_.records[i].grad_norm != reference_.records[i].grad_norm)
        return false;
    return layout_.end.weights == reference_.end.weights &&
           layout_.end.optimizer == reference_.end.optimizer &&
           layout_.end.masters == reference_.end.masters;
  }
  bool has_same_norms() const {
    return std::ranges::equal(layout_.records, reference_.records, {}, &StepRecord::grad_norm,
                              &StepRecord::grad_norm);
  }

  bool is_close() const {
    return std::ranges::all_of(suspects_,
                               [this](const Suspect& suspect) { return is_close(suspect); });
  }
  void add_reordering(const FreeRun& reordering) {
    for (Suspect& suspect : suspects_)
      suspect.noise = std::max(suspect.noise, suspect.measure(reordering));
  }
  // Where rounding decided a gradient, it decides what follows.
  bool is_decided() const {
    return std::ranges::all_of(report_.tensors, &TensorVerdict::is_judged);
  }
  // Losses and norms come first, in the order of the steps.
  void judge() {
    bool is_chaotic = !is_decided();
    for (const Suspect& suspect : suspects_) {
      if (suspect.tensor == nullptr && suspect.noise >= kChaotic * suspect.size) is_chaotic = true;
      if (is_close(suspect)) continue;
      const double rel = relative(suspect.distance, suspect.size);
      if (is_chaotic || suspect.noise >= kFreeUndecided * suspect.size) {
        if (suspect.tensor != nullptr) suspect.tensor->is_judged = false;
        continue;
      }
      if (suspect.distance <= kFreeFar * suspect.noise) continue;
      const std::string problem =
          concat("running free: ", suspect.what, " off by ", rel,
                 suspect.tensor == nullptr ? " of its size, " : " of its update, ",
                 relative(suspect.distance, suspect.noise), " times as far as rounding");
      if (suspect.tensor == nullptr) {
        report_.problems.push_back(problem);
      } else if (suspect.tensor->verdict != Verdict::Bug) {
        suspect.tensor->verdict = Verdict::Bug;
        suspect.tensor->problem = problem;
      }
    }
  }

 private:
  // By a share of the update, or by less than the type can tell: a small learning rate moves a
  // weight by few last bits.
  bool is_close(const Suspect& suspect) const {
    return suspect.distance <= floor_ * suspect.size + suspect.last_bit;
  }
  void add(Suspect suspect) {
    suspect.distance = suspect.measure(layout_);
    suspects_.push_back(std::move(suspect));
  }

  void list_numbers() {
    for (size_t i = 0; i < reference_.records.size(); ++i) {
      const auto number = [&](const char* name, auto far, double& most) {
        Suspect suspect{concat("step ", i + 1, ": ", name), nullptr, 0, 1, 0, 0, {}};
        suspect.measure = [i, wanted = reference_.records[i], far](const FreeRun& run) {
          return i < run.records.size() ? far(run.records[i], wanted)
                                        : std::numeric_limits<double>::infinity();
        };
        most = std::max(most, suspect.measure(layout_));
        add(std::move(suspect));
      };
      number(
          "loss",
          [](const StepRecord& record, const StepRecord& wanted) {
            return relative(distance(record.loss, wanted.loss), std::abs(wanted.loss));
          },
          report_.free_loss_max_rel);
      // A norm just above the limit is clipped, one just below is not: judged together.
      number(
          "gradient norm and clip coefficient",
          [clip = clip_](const StepRecord& record, const StepRecord& wanted) {
            const double scale = clip_scale(wanted.grad_norm, clip);
            return std::max(
                relative(distance(record.grad_norm, wanted.grad_norm), wanted.grad_norm),
                relative(distance(clip_scale(record.grad_norm, clip), scale), scale));
          },
          report_.free_norm_max_rel);
    }
  }

  void list_tensors() {
    for (TensorVerdict& tensor : report_.tensors) {
      add_tensor(tensor, "weight", &GlobalState::weights, tensor.name, types_.compute);
      if (!reference_.end.masters.empty())
        add_tensor(tensor, "master weight", &GlobalState::masters, tensor.name, types_.master);
      for (const auto& [name, values] : reference_.end.optimizer)
        if (name.ends_with("." + tensor.name))
          add_tensor(tensor, name.substr(0, name.size() - tensor.name.size() - 1),
                     &GlobalState::optimizer, name, types_.moments);
      report_.free_max_rel = std::max(report_.free_max_rel, tensor.free_rel);
    }
  }

  void add_tensor(TensorVerdict& tensor, const std::string& what, GlobalTensors GlobalState::*in,
                  const std::string& name, DType type) {
    const std::vector<float>& wanted = (reference_.end.*in).at(name);
    Suspect suspect{what, &tensor, 0, rms_distance(wanted, (reference_.start.*in).at(name)),
                    0,    0,       {}};
    suspect.last_bit = last_bit(1, type) * rms(wanted);
    suspect.measure = [in, name, &wanted](const FreeRun& run) {
      const auto found = (run.end.*in).find(name);
      return found == (run.end.*in).end() ? std::numeric_limits<double>::infinity()
                                          : typical_distance(found->second, wanted);
    };
    tensor.free_rel = std::max(tensor.free_rel, relative(suspect.measure(layout_), suspect.size));
    add(std::move(suspect));
  }

  const FreeRun& layout_;
  const FreeRun& reference_;
  double clip_, floor_;
  NumberTypes types_;
  VerifyReport& report_;
  std::vector<Suspect> suspects_;
};

// Trains as many steps as `layout` did; false when a step is not finite.
bool train_free(LayoutRun& reference, const FreeRun& layout, FreeRun& out) {
  out.start = reference.state();
  try {
    for (size_t step = 0; step < layout.records.size(); ++step) reference.train_step();
    reference.finish_training();
  } catch (const Error& error) {
    if (!is_not_finite(error)) throw;
    return false;
  }
  out.end = reference.state();
  out.records = reference.records();
  return true;
}

}  // namespace

void compare_free(const FreeRun& layout, LayoutRun& reference, Reorderings& reorderings,
                  const EqualBits& bits, VerifyReport& report) {
  if (layout.records.empty()) return;
  FreeRun other;
  // A reference that is not finite where the layout is has drifted away: held together it was.
  if (!train_free(reference, layout, other)) return;
  report.ran_free = true;
  FreeComparison comparison(layout, other, reference.config(), report);
  if (comparison.has_same_bits()) return;
  report.bitwise = false;
  if (bits.steps && comparison.has_same_norms())
    report.problems.push_back(
        "running free: other bits, though these layouts add everything in the same order");
  if (comparison.is_close()) return;
  if (comparison.is_decided())
    reorderings.train(static_cast<int64_t>(layout.records.size()), layout.start,
                      [&](const std::vector<StepRecord>& records, const GlobalState& end) {
                        comparison.add_reordering({{}, end, records});
                      });
  comparison.judge();
}

}  // namespace sextant
