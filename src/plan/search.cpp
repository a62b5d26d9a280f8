// The loops go from what is expensive to compute to what is cheap: times and bytes of a layer
// depend on tp, cp, ep, micro-batch and recomputation alone, so they are computed once for all
// pipelines and ways of sharding. Two bounds cut whole branches: states that do not fit with the
// most sharding, and compute alone that is slower than a plan at hand.
#include "plan/search.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "plan/search_space.h"

namespace sextant {
namespace {

constexpr size_t kKept = 100;  // best plans of each schedule and pipeline kept while searching
constexpr int kEachKind = 20;  // a share of those simulated, of each schedule and pipeline
constexpr double kWorthSimulating = 1.3;  // times the best closed form
constexpr int64_t kMostSimulated = 60'000;
constexpr size_t kShownRejects = 12;
constexpr double kNearlyFits = 1.5;  // times the memory: worth a word on why it does not fit
constexpr double kTooSlow = 1.6;     // times the best plan's time: not worth the rest
// Operations of the phantom device for each plan to list, all dry runs together: some seconds.
constexpr int64_t kOperationsEach = 3'000'000;

Case plain_case(const PlanRequest& request, const Layout& layout) {
  Case out;
  out.hardware = request.hardware;
  out.shape = request.shape;
  out.numerics = request.numerics;
  out.practice = request.practice;
  out.layout = layout;
  out.global_batch = request.batch;
  return out;
}

class Search {
 public:
  Search(const PlanRequest& request, const Constants& constants)
      : request_(request), constants_(constants), counts_(count_parameters(request.shape)) {
    asked_ = case_of(request, Layout{});
    usable_ = usable_memory(request.hardware);
    pipelines_ = divisors(request.gpus);
    kept_.resize(std::size(kSchedules) * pipelines_.size());
  }

  PlanResult run() {
    const SearchSpace space(request_);
    space_ = &space;
    out_.reasons = space.refused();
    for (const Layout& stage : space.stage_layouts()) layers_of(stage);
    return finish();
  }

 private:
  void refuse(const char* reason) { ++out_.reasons[reason]; }

  void layers_of(const Layout& stage) {
    Layout& l = asked_.layout;
    l = stage;
    const int64_t ranks = request_.gpus / (int64_t{1} * l.tp * l.cp);
    for (const int64_t micro : kMicros) {
      if (!is_open(request_.fixed.micro, micro)) continue;
      if (micro > request_.batch) break;
      l.micro = micro;
      for (const Recompute recompute :
           {Recompute::None, Recompute::Cheap, Recompute::Selective, Recompute::Full}) {
        if (!is_open(request_.fixed.recompute, recompute) || is_double(recompute)) continue;
        l.recompute = recompute;
        pipelines_of(ranks);
      }
    }
  }

  // Flash attention keeps no scores: then selective recomputation is priced as the cheap one.
  bool is_double(Recompute recompute) const {
    return recompute == Recompute::Selective && !request_.fixed.recompute &&
           request_.practice.attention >= AttentionKernel::Flash1;
  }

  void pipelines_of(int64_t ranks) {
    Layout& l = asked_.layout;
    l.pp = 1;
    const LayerTimes times = layer_times(asked_, constants_);
    const LayerMemory memory = layer_memory(asked_);
    const LayerTime& layer = request_.shape.experts > 0 ? times.sparse : times.dense;
    for (const int64_t pp : divisors(ranks)) {
      if (pp > request_.shape.layers || !is_open(request_.fixed.pp, pp)) continue;
      const int64_t data = ranks / pp;
      if (request_.batch % (data * l.micro) != 0) {
        refuse("the batch does not divide by data ranks times micro-batch");
        continue;
      }
      if ((data * l.tp * l.cp) % (int64_t{1} * l.ep * l.etp) != 0) continue;
      l.pp = static_cast<int>(pp);
      pipeline_ =
          static_cast<size_t>(std::ranges::lower_bound(pipelines_, pp) - pipelines_.begin());
      const double micros = static_cast<double>(request_.batch / (data * l.micro));
      const double least = micros * layer.total() * static_cast<double>(request_.shape.layers) /
                           static_cast<double>(pp);
      if (least > kTooSlow * best_) {
        ++out_.pruned;
        continue;
      }
      schedules_of(data, static_cast<int64_t>(micros), times, memory);
    }
  }

  void schedules_of(int64_t data, int64_t micros, const LayerTimes& times,
                    const LayerMemory& memory) {
    Layout& l = asked_.layout;
    for (const ScheduleChoice& choice : space_->schedules(l.pp, micros)) {
      l.schedule = choice.kind;
      l.chunks = choice.chunks;
      if (request_.practice.own) note_held(micros);
      shards_of(data, times, memory);
    }
  }

  struct Pipelined {
    ScheduleHeld held;
    StageLayers split;
  };

  // Counted once for each schedule.
  const Pipelined& pipelined(const Layout& l, int64_t micros) {
    const int64_t telling = telling_micros(l, micros);
    const auto [found, is_new] = helds_.try_emplace({l.schedule, l.chunks, l.pp, telling});
    if (!is_new) return found->second;
    const Case asked = case_of(request_, l);
    return found->second = {held_passes(l, telling, relative_costs(asked)), asked.split};
  }

  void note_held(int64_t micros) {
    const Pipelined& now = pipelined(asked_.layout, micros);
    held_ = &now.held;
    asked_.split = now.split;
  }

  Case case_with(const Layout& layout) {
    Case out = plain_case(request_, layout);
    if (request_.practice.own) out.split = pipelined(layout, out.micros()).split;
    return out;
  }

  MemoryUse memory_of(const Case& asked) {
    if (!request_.practice.own) return memory_use(asked, constants_);
    return memory_use(asked, constants_, layer_memory(asked), counts_,
                      pipelined(asked.layout, asked.micros()).held);
  }

  void shards_of(int64_t data, const LayerTimes& times, const LayerMemory& memory) {
    Layout& l = asked_.layout;
    for (const int64_t shard : divisors(data)) {
      const int64_t dp = data / shard;
      if (!is_open(request_.fixed.shard, shard) || !is_open(request_.fixed.dp, dp)) continue;
      for (int zero = shard > 1 ? 1 : 0; zero <= (shard > 1 ? 3 : 0); ++zero) {
        if (!is_open(request_.fixed.zero, zero)) continue;
        l.dp = static_cast<int>(dp);
        l.shard = static_cast<int>(shard);
        l.zero = zero;
        evaluate(times, memory);
      }
    }
  }

  void evaluate(const LayerTimes& times, const LayerMemory& memory) {
    ++out_.evaluated;
    const MemoryUse use = memory_use(asked_, constants_, memory, counts_, *held_);
    const double seconds = step_time(asked_, constants_, times, counts_).total();
    if (use.total() > usable_) {
      refuse("does not fit in memory");
      if (use.total() < kNearlyFits * usable_) keep(too_large_, seconds, kShownRejects);
      if (use.total() < least_bytes_) {
        least_bytes_ = use.total();
        least_ = asked_.layout;
      }
      return;
    }
    best_ = std::min(best_, seconds);
    keep(kept_[static_cast<size_t>(asked_.layout.schedule) * pipelines_.size() + pipeline_],
         seconds, kKept);
    note_front(seconds, use.total());
  }

  struct Kept {
    double seconds;
    Layout layout;
    bool operator<(const Kept& other) const { return seconds < other.seconds; }
  };

  // The fastest `most`, as a heap with the slowest on top.
  void keep(std::vector<Kept>& heap, double seconds, size_t most) {
    if (heap.size() == most && seconds >= heap.front().seconds) return;
    if (heap.size() == most) {
      std::pop_heap(heap.begin(), heap.end());
      heap.pop_back();
    }
    heap.push_back({seconds, asked_.layout});
    std::push_heap(heap.begin(), heap.end());
  }

  struct FrontPoint {
    double seconds, bytes;
    Layout layout;
  };

  void note_front(double seconds, double bytes) {
    for (const FrontPoint& point : front_)
      if (point.seconds <= seconds && point.bytes <= bytes) return;
    std::erase_if(front_, [&](const FrontPoint& point) {
      return point.seconds >= seconds && point.bytes >= bytes;
    });
    front_.push_back({seconds, bytes, asked_.layout});
  }

  Plan plan_of(const Layout& layout, bool simulated) {
    const Case asked = case_with(layout);
    Plan plan;
    plan.layout = layout;
    plan.time = simulated ? simulated_step_time(asked, constants_, kMostSimulated)
                          : step_time(asked, constants_);
    plan.memory = memory_of(asked);
    const double tokens =
        static_cast<double>(request_.batch) * static_cast<double>(request_.shape.seq);
    plan.tokens_per_s = tokens / plan.time.total();
    plan.mfu =
        model_flops(request_.shape, tokens) /
        (plan.time.total() * static_cast<double>(request_.gpus) * half_peak(request_.hardware));
    plan.interval =
        error_interval(asked, !request_.hardware.validated || !request_.hardware.assumed.empty());
    return plan;
  }

  std::string memory_reason(const Layout& layout) {
    const MemoryUse use = memory_of(case_with(layout));
    const auto gib = [](double bytes) { return std::round(bytes / kGiB * 10) / 10; };
    return concat("needs ", gib(use.total()), " GiB of ", gib(usable_), ": weights ",
                  gib(use.weights), ", gradients ", gib(use.gradients), ", optimizer ",
                  gib(use.optimizer), ", activations ", gib(use.activations + use.logits),
                  ", gathered layers ", gib(use.gathered), ", reserve ",
                  gib(use.fragments + use.outside));
  }

  // The fastest by closed forms, and the fastest of each schedule and pipeline, whose closed forms
  // are not equally exact, are simulated. Closed forms alone would be listed before simulations.
  std::vector<Plan> refined_plans() {
    std::vector<std::pair<Kept, size_t>> all;  // with the place in kept_
    for (size_t place = 0; place < kept_.size(); ++place)
      for (const Kept& kept : kept_[place]) all.emplace_back(kept, place);
    std::sort(all.begin(), all.end());
    const auto most = static_cast<size_t>(request_.refined);
    const auto enough = 2 * static_cast<size_t>(request_.plans);
    std::vector<size_t> taken(kept_.size(), 0);
    std::vector<Plan> plans;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto& [kept, place] = all[i];
      const bool is_best_of_its_kind =
          taken[place] < most / kEachKind && kept.seconds < kWorthSimulating * all[0].first.seconds;
      if (i >= most && plans.size() >= enough && !is_best_of_its_kind) continue;
      ++taken[place];
      out_.simulated += most > 0 && kept.layout.pp > 1;
      plans.push_back(plan_of(kept.layout, most > 0));
    }
    return plans;
  }

  // Those of the front that are still faster, simulated, than all that need less.
  void simulate_front() {
    std::ranges::sort(front_, {}, [](const FrontPoint& point) { return point.bytes; });
    double best = INFINITY;
    for (const FrontPoint& point : front_) {
      if (!refusal_of(request_, point.layout).empty()) continue;
      Plan plan = plan_of(point.layout, request_.refined > 0);
      if (plan.time.total() >= best) continue;
      best = plan.time.total();
      out_.front.push_back(std::move(plan));
    }
  }

  void refuse(const Layout& layout, const char* kind, const std::string& reason) {
    refuse(kind);
    if (out_.rejected.size() < kShownRejects) out_.rejected.push_back({layout, reason});
  }

  // Lists a plan that the configuration check and the dry run take.
  void list(Plan plan) {
    const std::string refused = refusal_of(request_, plan.layout);
    if (!refused.empty()) return refuse(plan.layout, "refused by the configuration check", refused);
    if (request_.dry_run) {
      const DryRun dry = request_.dry_run(request_, plan.layout);
      ++out_.dry_runs;
      operations_ += dry.operations;
      if (!dry.refused.empty())
        return refuse(plan.layout, "refused by the dry run", "dry run: " + dry.refused);
      plan.reserved = dry.reserved;
    }
    out_.plans.push_back(std::move(plan));
  }

  bool is_listed() const { return static_cast<int>(out_.plans.size()) >= request_.plans; }

  // Where no fast plan passes the dry run, one that needs less may.
  void list_from_front() {
    for (auto plan = out_.front.rbegin(); plan != out_.front.rend() && out_.plans.empty(); ++plan)
      list(*plan);
  }

  PlanResult finish() {
    std::vector<Plan> plans = refined_plans();
    std::ranges::stable_sort(plans, {}, [](const Plan& plan) { return plan.time.total(); });
    for (Plan& plan : plans) {
      if (is_listed()) break;
      if (operations_ > kOperationsEach * request_.plans) {
        if (!out_.plans.empty()) shortened_ = true;
        break;
      }
      list(std::move(plan));
    }
    simulate_front();
    if (request_.dry_run) list_from_front();
    std::sort(too_large_.begin(), too_large_.end());
    for (const Kept& kept : too_large_)
      out_.rejected.push_back({kept.layout, memory_reason(kept.layout)});
    if (out_.plans.empty() && too_large_.empty() && least_bytes_ < INFINITY)
      out_.rejected.push_back({least_, memory_reason(least_)});
    warn();
    return std::move(out_);
  }

  void warn() {
    if (shortened_)
      out_.warnings.push_back(concat("the list ends after ", out_.plans.size(),
                                     " layouts: dry runs of more would take too long"));
    if (!out_.plans.empty())
      for (const std::string& text : table_warnings(case_of(request_, out_.plans[0].layout)))
        out_.warnings.push_back(text);
    for (const std::string& text : request_.hardware.assumed) out_.warnings.push_back(text);
    const std::string refused = device_refusal(request_);
    if (!refused.empty())
      out_.warnings.push_back("not trained on GPUs by this program: " + refused);
    const double tokens = static_cast<double>(request_.batch * request_.shape.seq);
    if (request_.critical_batch > 0 && tokens > request_.critical_batch)
      out_.warnings.push_back(
          concat("a batch of ", tokens / 1e6, "M tokens exceeds the critical one of ",
                 request_.critical_batch / 1e6,
                 "M: more data ranks save time per step, but need more tokens"));
  }

  const PlanRequest& request_;
  const SearchSpace* space_ = nullptr;
  const Constants& constants_;
  const Parameters counts_;
  Case asked_;
  double usable_ = 0, best_ = INFINITY;
  std::vector<int64_t> pipelines_;       // every pp
  size_t pipeline_ = 0;                  // the present one
  std::vector<std::vector<Kept>> kept_;  // by schedule and pipeline
  std::map<std::tuple<ScheduleKind, int, int, int64_t>, Pipelined> helds_;
  ScheduleHeld serial_ = held_passes(Layout{}, 1);
  const ScheduleHeld* held_ = &serial_;
  int64_t operations_ = 0;  // of dry runs
  bool shortened_ = false;
  std::vector<Kept> too_large_;
  std::vector<FrontPoint> front_;
  double least_bytes_ = INFINITY;  // of those that do not fit
  Layout least_;
  PlanResult out_;
};

}  // namespace

Case case_of(const PlanRequest& request, const Layout& layout) {
  Case out = plain_case(request, layout);
  if (request.practice.own) out.split = written_split(request, layout);
  return out;
}

PlanResult search_plans(const PlanRequest& request, const Constants& constants) {
  SXT_CHECK(request.batch >= 1, Config, "the batch has ", request.batch,
            " sequences, it takes at least 1");
  SXT_CHECK(request.shape.seq >= 1, Config, "sequences have ", request.shape.seq,
            " tokens, they take at least 1");
  return Search(request, constants).run();
}

}  // namespace sextant
