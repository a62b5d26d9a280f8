#include "train/verify.h"

#include <algorithm>

#include "base/error.h"
#include "data/open_data.h"
#include "train/equal_bits.h"
#include "train/held_together.h"
#include "train/layout_run.h"
#include "train/layout_text.h"
#include "train/reorderings.h"
#include "train/running_free.h"
#include "train/world.h"

namespace sextant {
namespace {

constexpr int64_t kFewestSteps = 3, kMostSteps = 5;
// Steps whose operations are searched for races; later ones repeat them.
constexpr int64_t kTracedSteps = kMostSteps;

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
  if (world_size(out.config.parallel) == 1) out.config.run.transport = Transport::Threads;
  if (out.config.run.transport != Transport::Nccl)
    out.config.train.reductions = Reductions::Ordered;
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

// The two sides and their data.
class Verification {
 public:
  Verification(const Config& config, const VerifyOptions& options, const RunContext& context)
      : config_(without_limit(config)),
        context_(context),
        other_(make_reference(config_, options.against)),
        bits_(equal_bits(config_, other_.config)),
        data_(open_data(config, context.storage, context.log)),
        one_rank_(make_reference(config_, "")),
        reorderings_(one_rank_.config, one_rank_.micros, data_, context.storage, context.clock),
        exact_(one_rank_.config, one_rank_.micros, data_, context.storage, context.clock),
        steps_(options.steps > 0
                   ? options.steps
                   : std::clamp<int64_t>(config.train.steps, kFewestSteps, kMostSteps)) {
    report_.layout = layout_text(config);
    report_.against = layout_text(other_.config);
    for (const LayerSpec& layer : make_blueprint(config.model).layers)
      for (const ParamSpec& spec : layer.params) report_.tensors.emplace_back().name = spec.name;
  }

  VerifyReport run() {
    const FreeRun layout = hold_together();
    if (!has_found_ && !context_.stop.load()) {
      LayoutRun reference(other_.config, data_, {.micros = other_.micros}, context_.storage,
                          context_.clock);
      context_.log.progress("verify: running free");
      compare_free(layout, reference, reorderings_, bits_, report_);
    }
    conclude();
    return report_;
  }

 private:
  // The memory limit is for the ranks of a run; here the reference has fewer ranks.
  static Config without_limit(Config config) {
    config.run.memory_limit = 0;
    return config;
  }

  // Both sides up to the first step with a bug, or that is not finite.
  FreeRun hold_together() {
    LayoutRun layout(config_, data_, {.is_watched = true, .traced_steps = kTracedSteps},
                     context_.storage, context_.clock);
    LayoutRun reference(other_.config, data_, {.micros = other_.micros}, context_.storage,
                        context_.clock);
    HeldTogether held(layout, reference, reorderings_, exact_, bits_, report_);
    held.check_start();
    const auto check_final_steps = [&] {
      while (std::optional<WatchedStep> step = layout.next_watched()) {
        if (held.has_found()) return;
        held.check_step(*step);
        context_.log.progress(concat("verify: step ", report_.steps, " of ", steps_));
      }
    };
    try {
      for (int64_t i = 0; i < steps_ && !held.has_found() && !context_.stop.load(); ++i) {
        layout.train_step();
        check_final_steps();
      }
      if (!held.has_found()) layout.finish_training();
      check_final_steps();
      if (!held.has_found()) held.check_end();
    } catch (const Error& error) {
      if (!is_not_finite(error)) throw;
      check_final_steps();
      report_.end = error.what();
      if (!held.has_found()) held.check_not_finite(error.what());
    }
    for (const std::string& race : layout.races())
      report_.problems.push_back("not ordered: " + race);
    has_found_ = held.has_found() || !report_.problems.empty();
    FreeRun run{held.start(), held.last(), layout.records()};
    run.records.resize(std::min(run.records.size(), static_cast<size_t>(report_.steps)));
    return run;
  }

  void conclude() {
    for (const TensorVerdict& tensor : report_.tensors) {
      report_.verdict = std::max(report_.verdict, tensor.verdict);
      report_.bitwise = report_.bitwise && tensor.bitwise;
      report_.grad_max_rel = std::max(report_.grad_max_rel, tensor.grad_max_rel);
      report_.update_max_rel = std::max(report_.update_max_rel, tensor.update_max_rel);
    }
    if (!report_.problems.empty()) report_.verdict = Verdict::Bug;
    if (report_.verdict == Verdict::Equal && !report_.bitwise) report_.verdict = Verdict::Rounding;
  }

  Config config_;
  const RunContext& context_;
  Reference other_;
  EqualBits bits_;
  Loader data_;
  Reference one_rank_;
  Reorderings reorderings_;
  ExactRun exact_;
  int64_t steps_;
  VerifyReport report_;
  bool has_found_ = false;
};

// A balanced router counts from a rank's own first token: ranks that share a sequence choose as one
// rank does only if their parts of it hold whole rounds of the experts.
void check_balanced_router(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  const int64_t parts =
      parallel.cp * (parallel.cp > 1 ? 2 : 1) * (parallel.sequence ? parallel.tp : 1);
  if (config.model.router != RouterKind::Balanced || parts == 1) return;
  const int64_t choices = config.model.seq / parts * config.model.experts_per_token;
  SXT_CHECK(choices % config.model.experts == 0, Config, "verify: model.router = balanced over ",
            parts, " parts of a sequence: the ", choices,
            " choices of a part must be a multiple of ", "model.experts = ", config.model.experts,
            ", or each rank chooses other experts");
}

}  // namespace

const char* name_of(Verdict verdict) {
  return verdict == Verdict::Equal ? "equal" : verdict == Verdict::Rounding ? "rounding" : "bug";
}

VerifyReport verify_layout(const Config& config, const VerifyOptions& options,
                           const RunContext& context) {
  SXT_CHECK(config.run.transport != Transport::Mpi, Config,
            "verify runs all ranks in one process: run.transport = threads, whose sums have the ",
            "bits of mpi's");
  prepare_nccl(config);
  check_balanced_router(config);
  return Verification(config, options, context).run();
}

}  // namespace sextant
