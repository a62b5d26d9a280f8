#include "train/run.h"

#include <algorithm>
#include <memory>

#include "base/directory_lock.h"
#include "base/error.h"
#include "checkpoint/directory.h"
#include "checkpoint/load.h"
#include "formats/chrome_trace.h"
#include "trace/spans.h"
#include "train/metrics.h"
#include "train/pace.h"
#include "train/phantom.h"
#include "train/rank_totals.h"
#include "train/rehearsal.h"
#include "train/run_device.h"
#include "train/run_inputs.h"
#include "train/run_paths.h"
#include "train/set_aside.h"
#include "train/step_tracer.h"
#include "train/trainer.h"
#include "train/world.h"

namespace sextant {
namespace {

void make_output(Storage& storage, const std::string& out) {
  try {
    storage.make_directories(out);
  } catch (const Error& error) {
    throw Error(error.fault(), concat(error.what(), "; run.out must be a directory to write in"));
  }
}

// The other ranks wait meanwhile, no longer than the deadline.
DirectoryLock::Options lock_options(const Config& config) {
  DirectoryLock::Options options;
  options.wait_s = std::min(options.wait_s, config.fault.deadline / 2);
  return options;
}

// The directories that a run writes, for itself alone: run.out and that of its checkpoints, which
// another run may name as its own. Also run.out/checkpoints, which a fresh start sets aside.
class RunLocks {
 public:
  RunLocks(const Config& config, Storage& storage, Log& log) {
    storage.make_directories(checkpoint_directory(config));
    const std::string inside = join_path(config.run.out, kCheckpointsName);
    for (const std::string& directory : {config.run.out, checkpoint_directory(config), inside}) {
      if (!storage.is_directory(directory)) continue;
      if (std::ranges::any_of(locks_, [&](const auto& lock) { return lock->is_in(directory); }))
        continue;
      locks_.push_back(std::make_unique<DirectoryLock>(
          directory, [&log](const std::string& text) { log.warning(text); }, lock_options(config)));
    }
  }
  void check() const {
    for (const std::unique_ptr<DirectoryLock>& lock : locks_) lock->check();
  }

 private:
  std::vector<std::unique_ptr<DirectoryLock>> locks_;
};

// State of the first rank only: it reports and writes for all.
struct Reporter {
  std::unique_ptr<Metrics> metrics;
  Log& log;
  const RunLocks& locks;
  std::optional<StepComparison> comparison = {};
};

// The steps of a run on one rank, and what is due after each. All ranks take the same path.
class Run {
 public:
  // `end`: when train.max_hours are over, by `clock`.
  Run(const Config& config, const RunContext& context, double end, Trainer& trainer,
      Reporter* reporter)
      : config_(config),
        stop_(context.stop),
        clock_(context.clock),
        end_(end),
        trainer_(trainer),
        reporter_(reporter) {
    if (config_.run.trace && trainer_.stream().is_gpu()) tracer_.emplace(trainer_, clock_);
  }

  RunResult go() {
    trainer_.on_record = [this](const StepRecord& record) { report(record, Line::IfDue); };
    while (trainer_.steps_done() < config_.train.steps && !result_.stopped) step();
    if (reporter_ != nullptr) reporter_->log.end_progress();
    result_.steps = trainer_.steps_done();
    result_.steps_made = pace_.steps();
    result_.seconds = pace_.seconds();
    result_.tokens_per_s = pace_.tokens_per_s();
    result_.best_mfu = pace_.best_mfu();
    result_.memory = measured_memory(trainer_, config_);
    result_.sends = measured_sends(sent_, trainer_.mesh().world().control());
    result_.sends.exposed = exposed_;
    result_.checkpoint = checkpoint_directory(config_);
    if (reporter_ == nullptr || !reporter_->comparison) return result_;
    result_.compared = reporter_->comparison->result();
    if (reporter_->comparison->steps() != StepComparison::kDue) compare();
    return result_;
  }

 private:
  enum class Line { IfDue, Always };

  // The record of a step may come during the next one, but before what is due after it, and before
  // the end.
  void step() {
    if (wants_stop()) trainer_.ask_to_stop();
    std::optional<StepRecord> record = make_step();
    const int64_t step = trainer_.steps_done();
    const bool last = step == config_.train.steps, stopping = is_stopping();
    const bool evaluates = is_due(config_.train.eval_every, step);
    const bool saves = last || stopping || is_due(config_.checkpoint.every, step);
    if (!record && (evaluates || saves)) record = trainer_.finish_update();
    if (evaluates) {
      Evaluation evaluation = trainer_.evaluate();
      result_.eval_loss = record->eval_loss = evaluation.loss;
      record->eval_sources = std::move(evaluation.sources);
    }
    if (record) report(*record, last || stopping ? Line::Always : Line::IfDue);
    if (saves) save();
    result_.stopped = stopping && !last;
    result_.timed_out = result_.stopped && !stop_.load();
  }

  // Operations are timed in the first steps only, so that the trace of a long run can be opened.
  std::optional<StepRecord> make_step() {
    constexpr size_t kMostTimed = 200'000;  // operations of a rank
    if (tracer_ && timed_ >= kMostTimed) tracer_.reset();
    if (!tracer_) return trainer_.make_step();
    std::optional<StepRecord> record;
    const TimedTrace traced = tracer_->trace([&] { record = trainer_.make_step(); });
    timed_ += traced.trace.ops.size();
    const Ledger& ledger = trainer_.mesh().world().ledger();
    for (Span& span : device_spans_of(traced.trace, traced.times, ledger.rank))
      ledger.spans->add(std::move(span));
    result_.operations = op_table(traced.trace, traced.times, traced.step_s);
    return record;
  }

  bool wants_stop() const {
    return stop_.load() || (config_.train.max_hours > 0 && clock_.now() >= end_);
  }

  static bool is_due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

  // A signal may have reached only one process: all stop after the same step.
  bool is_stopping() {
    if (config_.optim.post_validation) return trainer_.is_stop_agreed();
    int64_t stop = wants_stop() ? 1 : 0;
    trainer_.mesh().world().control().all_reduce(std::span(&stop, 1), ReduceOp::Max);
    return stop != 0;
  }

  void report(const StepRecord& record, Line line) {
    if (!result_.loss_first) result_.loss_first = record.loss;
    result_.loss_last = record.loss;
    sent_ = record.sent;
    exposed_ = record.exposed;
    if (reporter_ == nullptr) return;
    reporter_->metrics->write(record);
    pace_.add(record);
    if (line == Line::Always || is_due(config_.train.log_every, record.step) || record.eval_loss) {
      reporter_->log.info(to_line(pace_.since_line(record), config_.train.steps));
      pace_.end_line();
    }
    reporter_->log.progress(to_progress(pace_.recent(record), config_.train.steps));
    if (reporter_->comparison && reporter_->comparison->add(record.step_s, record.mem_peak))
      compare();
  }

  void compare() {
    if (const std::optional<ComparedStep> compared = reporter_->comparison->result())
      reporter_->log.info(to_text(*compared));
  }

  void save() {
    const std::string directory = checkpoint_directory(config_);
    // Metrics are flushed first: a checkpoint is never ahead of them.
    if (reporter_ != nullptr) reporter_->metrics->sync();
    trainer_.save(directory, [this] { reporter_->locks.check(); });
    if (reporter_ != nullptr)
      reporter_->log.detail("saved step " + std::to_string(trainer_.steps_done()) + " in " +
                            directory);
  }

  const Config& config_;
  const std::atomic<bool>& stop_;
  const Clock& clock_;
  double end_;
  Trainer& trainer_;
  Reporter* reporter_;                // null except on the first rank
  std::optional<StepTracer> tracer_;  // with run.trace on a GPU
  size_t timed_ = 0;                  // operations
  Pace pace_;
  TrafficTable sent_;  // in the last step
  AxisTimes exposed_{};
  RunResult result_;
};

// State shared by the ranks of this process.
struct Shared {
  const Config& config;
  const RunOptions& options;
  const RunContext& context;
  const Preflight& flight;
  const Loader& data;
  double end;  // of train.max_hours
  std::optional<PredictedStep> predicted;
  std::optional<RunLocks>& locks;  // of rank 0, until all files are written
};

Reporter open_reporter(const Shared& run, const std::string& from, bool resumes, int64_t steps_done,
                       const RunLocks& locks) {
  const Config& config = run.config;
  Storage& storage = run.context.storage;
  const auto say_moved = [&](const std::string& directory, const std::string& moved) {
    if (!moved.empty())
      run.context.log.info(concat("the earlier run in ", directory, " is now in ", moved));
  };
  if (!resumes && !config.checkpoint.dir.empty())
    say_moved(config.checkpoint.dir, set_aside_checkpoints(storage, config.checkpoint.dir));
  Reporter reporter{std::make_unique<Metrics>(storage, run.context.clock, config.run.out,
                                              resumes ? Start::Resume : Start::Fresh, steps_done,
                                              config.run.tensorboard),
                    run.context.log, locks};
  say_moved(config.run.out, reporter.metrics->moved_to());
  replace_file(storage, join_path(config.run.out, "config.toml"), to_toml(config));
  if (resumes)
    reporter.log.info("resumed " + from + " after step " + std::to_string(steps_done) +
                      (steps_done >= config.train.steps
                           ? ": finished already; a larger train.steps goes on"
                           : ""));
  return reporter;
}

void write_trace(Storage& storage, const Config& config, SpanLog& spans, const std::string& name) {
  replace_file(storage, join_path(config.run.out, name), chrome_trace(spans.take()));
}

// Writes every operation that one rank of each kind will issue.
void write_rehearsal(const RunContext& context, const Config& config, const Preflight& flight) {
  std::vector<Span> spans;
  Budget budget = trace_budget(config, flight.kinds.size());
  for (int kind = 0; kind < flight.kinds.size(); ++kind) {
    const int rank = flight.kinds.representative(kind);
    const Trace trace =
        trace_phantom(config, flight, rank, flight.plans[static_cast<size_t>(rank)], &budget);
    for (Span& span : spans_of(trace, rank)) spans.push_back(std::move(span));
  }
  make_output(context.storage, config.run.out);
  const DirectoryLock lock(
      config.run.out, [&](const std::string& text) { context.log.warning(text); },
      lock_options(config));
  replace_file(context.storage, join_path(config.run.out, "trace.json"), chrome_trace(spans));
}

// The error of a damaged checkpoint lists the ones that can be named instead. If the checkpoint was
// made with other settings, so were the others, and none is listed.
void resume(Trainer& trainer, const std::string& from, const Shared& run) {
  const auto name_others = [&](const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      if (error.fault() != Fault::Data || trainer.mesh().world().rank() != 0) throw;
      const std::string directory = checkpoint_directory(run.config);
      throw Error(Fault::Data, error.what() + whole_ones(run.context.storage, directory, from));
    }
  };
  Manifest manifest;
  name_others([&] { manifest = read_manifest(run.context.storage, from); });
  trainer.check_same_run(manifest, from);
  name_others([&] { trainer.resume(from); });
}

RunResult run_rank(const Shared& run, Communicator& world) {
  // From here on nobody else writes the directories, and what `latest` names stays.
  if (world.rank() == 0) run.locks.emplace(run.config, run.context.storage, run.context.log);
  world.control().barrier();
  const auto agreed = [&](const std::function<std::string()>& find) {
    return world.control().broadcast_text(world.rank() == 0 ? find() : "", 0);
  };
  std::string from = agreed([&] { return resume_point(run.config, run.options, run.context); });
  const bool resumes = !from.empty();
  if (!resumes) from = agreed([&] { return source_of(run.options, run.context); });
  Mesh mesh(world, mesh_shape(run.config.parallel));
  Trainer trainer(run.config, run.flight, mesh, run.data, run.context.storage, run.context.clock);
  if (resumes)
    resume(trainer, from, run);
  else if (!from.empty())
    trainer.load_weights(from);
  world.control().barrier();  // all have read what may be moved away now
  std::optional<Reporter> reporter;
  if (world.rank() == 0) {
    reporter.emplace(open_reporter(run, from, resumes, trainer.steps_done(), *run.locks));
    if (run.predicted) reporter->comparison.emplace(*run.predicted, run.flight.memory[0].peak);
  }
  return Run(run.config, run.context, run.end, trainer, reporter ? &*reporter : nullptr).go();
}

}  // namespace

std::string checkpoint_directory(const Config& config) {
  return config.checkpoint.dir.empty() ? join_path(config.run.out, kCheckpointsName)
                                       : config.checkpoint.dir;
}

namespace {

// Of the ranks that have the first rank's GPU: each of so many.
int64_t reserved_on_gpu(const Preflight& flight, const Config& config) {
  const size_t apart = flight.memory.size() / static_cast<size_t>(ranks_on_gpu(config));
  int64_t bytes = 0;
  for (size_t rank = 0; rank < flight.memory.size(); rank += std::max<size_t>(1, apart))
    bytes += flight.memory[rank].reserved;
  return bytes;
}

}  // namespace

Preflight fitting_forecast(const ResolvedConfig& resolved, const RunOptions& options,
                           const RunContext& context) {
  Preflight flight = forecast(resolved.config, options.peak_flops);
  const std::string problem = why_too_large(flight, resolved.config);
  if (problem.empty()) return flight;
  if (options.on_too_large)
    options.on_too_large(flight);
  else
    context.log.info(preflight_text(flight, resolved));
  throw Error(Fault::Memory, problem);
}

RunResult run_training(const ResolvedConfig& resolved, const RunOptions& options,
                       const RunContext& context) {
  const Config& config = resolved.config;
  const double end = context.clock.now() + 3600 * config.train.max_hours;
  if (!options.dry_run) {  // refused before the work of a forecast
    prepare_nccl(config);
    run_device(config);
  }
  const Preflight flight = fitting_forecast(resolved, options, context);
  std::string table = preflight_text(flight, resolved);
  const OnGpu on_gpu{flight.groups, ranks_on_gpu(config)};
  if (config.run.device == RunDevice::Cuda)
    table += outside_text(options.outside, config, reserved_on_gpu(flight, config), on_gpu);
  context.log.info(table);
  if (options.dry_run) {
    RunResult result;
    result.memory = predicted_memory(flight);
    if (config.run.device == RunDevice::Cuda)
      result.memory[0].outside = predicted_outside(options.outside, config, on_gpu);
    result.sends = predicted_sends(flight);
    if (options.on_dry_run) options.on_dry_run(flight, result);
    check_run_paths(config);
    if (config.run.trace) write_rehearsal(context, config, flight);
    check_inputs(config, options, context);
    return result;
  }
  // Found before anything is moved or allocated: a resume without a checkpoint changes nothing.
  check_run_paths(config);
  const bool is_auto = options.resume && options.resume_from == kAutoCheckpoint;
  if (!is_auto) check_source(config, options, context);
  const Loader data = open_run_data(config, options, context);
  make_output(context.storage, config.run.out);
  std::optional<PredictedStep> predicted;
  if (options.predict) predicted = options.predict(flight);
  std::optional<RunLocks> locks;
  const Shared shared{config, options, context, flight, data, end, predicted, locks};
  RunResult result;
  SpanLog spans;
  run_world(config, context.clock, config.run.trace ? &spans : nullptr, [&](Communicator& world) {
    RunResult own = run_rank(shared, world);
    const bool is_alone = !ranks_share_process(config);  // one rank per process
    if (world.rank() == 0 || is_alone) result = std::move(own);
    if (is_alone && config.run.trace)
      write_trace(context.storage, config, spans, concat("trace-", world.rank(), ".json"));
  });
  if (config.run.trace && ranks_share_process(config))
    write_trace(context.storage, config, spans, "trace.json");
  return result;
}

}  // namespace sextant
