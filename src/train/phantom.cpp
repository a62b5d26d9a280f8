#include "train/phantom.h"

#include <algorithm>

#include "base/clock.h"
#include "base/storage.h"
#include "comm/phantom_world.h"
#include "fault/inject.h"
#include "train/run_device.h"

namespace sextant {
namespace {

constexpr int64_t kPlanning = 3;                     // operations per planned tensor
constexpr int64_t kPlanningWork = 10 * kSearchWork;  // of all programs of all kinds of ranks

// For one program of a rank. Experts are planned for three routings.
int64_t planning_work(const Config& config, const Preflight& flight, const ArenaRecord& record) {
  const int64_t routings = mesh_shape(config.parallel).expert_size() > 1 ? 3 : 1;
  const int64_t programs =
      std::ranges::count_if(record.programs, [](const auto& program) { return !program.empty(); });
  const int64_t plans = routings * programs * flight.kinds.size();
  return std::min(kSearchWork, kPlanningWork / std::max<int64_t>(1, plans));
}

// Data that is never read: a phantom rank uses only sizes.
Loader no_data(const Config& config, Storage& storage) {
  DataConfig data;
  data.kind = DataKind::Synthetic;
  return Loader::open(storage, data, {config.model.seq, config.model.vocab, 0, 1, {}});
}

// One rank of a world of any size, without peers and with a constant clock.
class PhantomTrainer {
 public:
  PhantomTrainer(const Config& config, const Preflight& flight, int rank, TrainerOptions options)
      : config_(without_failures(config)),
        world_(rank, world_size(config.parallel), clock_),
        mesh_(world_.world(), mesh_shape(config.parallel)),
        data_(no_data(config, storage_)) {
    options.device = phantom_device(config_);
    if (options.plan != nullptr && !flight.host_plans.empty())
      options.host_plan = flight.host_plans[static_cast<size_t>(rank)];
    trainer_.emplace(config_, flight, mesh_, data_, storage_, clock_, options);
  }

  void run() {
    rehearse(*trainer_, config_);
    traffic_ = mesh_.world().ledger().traffic;
    groups_ = mesh_.world().ledger().groups;
  }

  Trainer& trainer() { return *trainer_; }

  const TrafficTable& traffic() const { return traffic_; }
  const GroupCounts& groups() const { return groups_; }

 private:
  // A bug is part of what runs, and may change its memory.
  static Config without_failures(Config config) {
    if (parse_injection(config.fault.inject).ends_rank()) config.fault.inject.clear();
    return config;
  }

  Config config_;
  ManualClock clock_;
  DiskStorage storage_;
  PhantomWorld world_;
  Mesh mesh_;
  Loader data_;
  std::optional<Trainer> trainer_;
  TrafficTable traffic_;
  GroupCounts groups_;
};

MemoryEstimate estimate_of(const CategoryBytes& bytes, int64_t peak, int64_t reserved) {
  return {bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], peak, reserved};
}

// All live memory.
MemoryEstimate resident_of(const Arena& arena) {
  CategoryBytes bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = arena.current(static_cast<Category>(i));
  return estimate_of(bytes, arena.current(), arena.reserved());
}

}  // namespace

// Ends with an ordinary step, whose traffic is then in the ledger.
void rehearse(Trainer& trainer, const Config& config) {
  trainer.make_step();
  if (config.train.eval_every > 0) trainer.evaluate();
  if (trainer.has_post_validation() && config.optim.clip > 0) {
    trainer.make_step();
    trainer.assume_clipped();
    trainer.make_step();  // its forwards are discarded
  }
  trainer.make_step();
  trainer.finish_update();
}

PhantomRank run_phantom(const Config& config, const Preflight& flight, int rank,
                        const PhantomOptions& options) {
  TrainerOptions of_trainer;
  // Offloaded activations are recorded without cycles.
  of_trainer.shortened =
      options.micros == PhantomOptions::Micros::SteadyOnce && !config.memory.offloads_activations();
  of_trainer.budget = options.budget;
  PhantomTrainer trainer(config, flight, rank, of_trainer);
  PhantomRank out;
  out.resident = resident_of(trainer.trainer().arena());
  trainer.run();
  if (options.budget != nullptr)  // planning a tensor takes as long as some operations
    for (const std::vector<Lifetime>& program : trainer.trainer().arena().record().programs)
      options.budget->take(kPlanning * static_cast<int64_t>(program.size()));
  const ArenaRecord& record = trainer.trainer().arena().record();
  std::optional<ArenaPlan> plan = plan_arena(record, planning_work(config, flight, record));
  if (!plan) {
    return run_phantom(config, flight, rank, {PhantomOptions::Micros::All, options.budget});
  }
  out.plan = std::make_shared<ArenaPlan>(std::move(*plan));
  out.memory = estimate_of(trainer.trainer().arena().peaks(), trainer.trainer().arena().peak(),
                           out.plan->reserved);
  if (const HostArena* host = trainer.trainer().offload()) {
    out.host_plan = std::make_shared<ArenaPlan>(*plan_arena(host->record()));
    out.memory.host_optimizer = host->peak(Category::Optimizer);
    out.memory.host_activations = host->peak(Category::Activations);
    out.memory.host = out.host_plan->reserved;
  }
  out.traffic = trainer.traffic();
  out.groups = trainer.groups();
  out.left_out = trainer.trainer().arena().record().cycles[0].left_out;
  return out;
}

Trace trace_phantom(const Config& config, const Preflight& flight, int rank,
                    std::shared_ptr<const ArenaPlan> plan, Budget* budget) {
  TraceRecorder recorder;
  recorder.set_budget(budget);
  TrainerOptions of_trainer;
  of_trainer.plan = std::move(plan);
  of_trainer.recorder = &recorder;
  {
    PhantomTrainer trainer(config, flight, rank, of_trainer);
    trainer.run();
  }
  return recorder.take();
}

StepTraces trace_steps(const Config& config, const Preflight& flight, int rank,
                       std::shared_ptr<const ArenaPlan> plan, Budget* budget,
                       TraceRecorder::OnOperation on_operation) {
  TraceRecorder recorder;
  recorder.set_budget(budget);
  recorder.forget_operands(std::move(on_operation));
  TrainerOptions of_trainer;
  of_trainer.plan = std::move(plan);
  of_trainer.recorder = &recorder;
  PhantomTrainer trainer(config, flight, rank, of_trainer);
  StepTraces out;
  trainer.trainer().make_step();
  out.second = recorder.trace().ops.size();
  trainer.trainer().make_step();
  out.end = recorder.trace().ops.size();
  trainer.trainer().finish_update();
  out.trace = recorder.take();
  return out;
}

}  // namespace sextant
