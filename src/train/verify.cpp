#include "train/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "base/error.h"
#include "data/open_data.h"
#include "train/layout_run.h"
#include "train/layout_text.h"

namespace sextant {
namespace {

// Tolerances of a gradient: relative to its largest element, and as a multiple of the rounding of
// the sum of its absolute terms.
constexpr double kTolerance = 1e-5;
constexpr double kTermTolerance = 4;
constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

bool has_same_bits(std::span<const float> a, std::span<const float> b) {
  return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

double largest(std::span<const float> values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

// NaN counts as infinitely far.
double distance(double a, double b) {
  const double difference = std::abs(a - b);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

double distance(std::span<const float> a, std::span<const float> b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, distance(a[i], b[i]));
  return most;
}

double relative(double difference, double scale) {
  return difference == 0 || std::isinf(difference) ? difference : difference / scale;
}

void raise(TensorVerdict& tensor, Verdict verdict, const std::string& problem) {
  if (verdict <= tensor.verdict) return;
  tensor.verdict = verdict;
  tensor.problem = problem;
}

void compare_gradient(TensorVerdict& tensor, std::span<const float> got,
                      std::span<const float> wanted, double terms, int64_t step) {
  if (has_same_bits(got, wanted)) return;
  tensor.bitwise = false;
  const double size = largest(wanted), floor = kEpsilon * terms;
  const double difference = distance(got, wanted);
  const double rel = relative(difference, std::max(size, floor));
  tensor.grad_max_rel = std::max(tensor.grad_max_rel, rel);
  const bool is_rounding = difference <= kTolerance * size + kTermTolerance * floor;
  raise(tensor, is_rounding ? Verdict::Rounding : Verdict::Bug,
        is_rounding ? "" : concat("step ", step, ": gradient off by ", rel, " of its size"));
}

void compare_weight(TensorVerdict& tensor, std::span<const float> got,
                    std::span<const float> wanted, int64_t step) {
  if (has_same_bits(got, wanted)) return;
  tensor.bitwise = false;
  const double size = largest(wanted);
  const double rel = relative(distance(got, wanted), size);
  tensor.weight_max_rel = std::max(tensor.weight_max_rel, rel);
  const bool is_rounding = rel <= kTolerance;
  raise(tensor, is_rounding ? Verdict::Rounding : Verdict::Bug,
        is_rounding ? "" : concat("step ", step, ": updated weight off by ", rel, " of its size"));
}

std::string rank_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (const int rank : ranks) text += " " + std::to_string(rank);
  return text;
}

// The reference: its layout, with the micro-batches of the layout under test distributed to its
// ranks in order.
struct Reference {
  Config config;
  std::vector<std::vector<MicroSlice>> micros;
};

Reference make_reference(const Config& config, const std::string& against) {
  Reference out{config, {}};
  out.config.parallel =
      against.empty() ? ParallelConfig{} : parse_layout(config, against, "--against");
  out.config.fault.inject.clear();
  out.config.optim.post_validation = false;
  const std::vector<MicroSlice> all = micros_of(config, 0, data_ranks(config.parallel));
  const int ranks = data_ranks(out.config.parallel);
  SXT_CHECK(all.size() % static_cast<size_t>(ranks) == 0, Usage, "--against ", against, ": its ",
            ranks, " data ranks cannot share the ", all.size(), " micro-batches of a step evenly");
  const size_t each = all.size() / static_cast<size_t>(ranks);
  out.config.batch.accumulation = static_cast<int64_t>(each);
  for (size_t begin = 0; begin < all.size(); begin += each)
    out.micros.emplace_back(all.begin() + static_cast<int64_t>(begin),
                            all.begin() + static_cast<int64_t>(begin + each));
  return out;
}

class Comparison {
 public:
  Comparison(LayoutRun& side, LayoutRun& reference, VerifyReport& report)
      : side_(side), reference_(reference), report_(report) {}

  void step(int64_t step) {
    const double loss = side_.compute_gradients(), wanted = reference_.compute_gradients();
    report_.loss_max_rel =
        std::max(report_.loss_max_rel, relative(distance(loss, wanted), std::abs(wanted)));
    if (loss != wanted) report_.bitwise = false;
    const GlobalTensors gradients = side_.gradients();
    compare_gradients(gradients, step);
    reference_.set_gradients(gradients);
    side_.update();
    reference_.update();
    compare_weights(step);
    side_.set_state(reference_.weights(), reference_.moments());
  }

 private:
  void compare_gradients(const GlobalTensors& gradients, int64_t step) {
    const GlobalTensors wanted = reference_.gradients();
    const std::map<std::string, double> terms = reference_.terms();
    for (TensorVerdict& tensor : report_.tensors)
      compare_gradient(tensor, gradients.at(tensor.name), wanted.at(tensor.name),
                       terms.at(tensor.name), step);
  }

  void compare_weights(int64_t step) {
    const GlobalTensors weights = side_.weights(), wanted = reference_.weights();
    const std::map<std::string, std::vector<int>> differing_replicas =
        side_.differing_replicas(weights);
    for (TensorVerdict& tensor : report_.tensors) {
      compare_weight(tensor, weights.at(tensor.name), wanted.at(tensor.name), step);
      if (const auto found = differing_replicas.find(tensor.name);
          found != differing_replicas.end()) {
        tensor.bitwise = false;
        raise(tensor, Verdict::Bug,
              concat("step ", step, ": the copy on ", rank_text(found->second),
                     " differs from its owner's"));
      }
    }
  }

  LayoutRun& side_;
  LayoutRun& reference_;
  VerifyReport& report_;
};

void conclude(VerifyReport& report) {
  for (const TensorVerdict& tensor : report.tensors) {
    report.verdict = std::max(report.verdict, tensor.verdict);
    report.bitwise = report.bitwise && tensor.bitwise;
    report.grad_max_rel = std::max(report.grad_max_rel, tensor.grad_max_rel);
    report.weight_max_rel = std::max(report.weight_max_rel, tensor.weight_max_rel);
  }
  if (!(report.loss_max_rel <= kTolerance)) report.verdict = Verdict::Bug;
  if (report.verdict == Verdict::Equal && !report.bitwise) report.verdict = Verdict::Rounding;
}

}  // namespace

const char* name_of(Verdict verdict) {
  return verdict == Verdict::Equal ? "equal" : verdict == Verdict::Rounding ? "rounding" : "bug";
}

VerifyReport verify_layout(const Config& config, const VerifyOptions& options,
                           const RunContext& context) {
  SXT_CHECK(config.run.transport == Transport::Threads, Config,
            "verify runs all ranks in one process: run.transport = threads, whose sums have the ",
            "bits of mpi's");
  // The memory limit is for the ranks of a run; here the reference has fewer ranks, and terms are
  // counted too.
  Config unlimited = config;
  unlimited.run.memory_limit = 0;
  const Reference other = make_reference(unlimited, options.against);
  const Loader data = open_data(config, context.storage, context.log);
  LayoutRun side(unlimited, data, {}, context.storage, context.clock);
  LayoutRun reference(other.config, data, other.micros, context.storage, context.clock);
  VerifyReport report;
  report.steps = options.steps > 0 ? options.steps : std::min<int64_t>(config.train.steps, 5);
  report.layout = layout_text(config);
  report.against = layout_text(other.config);
  for (const LayerSpec& layer : make_blueprint(config.model).layers)
    for (const ParamSpec& spec : layer.params) report.tensors.emplace_back().name = spec.name;
  Comparison comparison(side, reference, report);
  for (int64_t step = 1; step <= report.steps && !context.stop.load(); ++step) {
    comparison.step(step);
    context.log.progress(concat("verify: step ", step, " of ", report.steps));
  }
  conclude(report);
  return report;
}

}  // namespace sextant
