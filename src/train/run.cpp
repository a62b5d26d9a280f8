#include "train/run.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/directory.h"
#include "train/metrics.h"
#include "train/set_aside.h"
#include "train/trainer.h"

namespace sextant {
namespace {

RankMemory predicted(const MemoryEstimate& memory) {
  RankMemory out;
  out.peak = memory.total();
  out.categories = {memory.weights,     memory.gradients, memory.optimizer,
                    memory.activations, memory.workspace, 0};
  return out;
}

RankMemory measured(const Arena& arena) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  RankMemory out;
  out.peak = arena.peak();
  out.outside = std::max<int64_t>(0, int64_t{usage.ru_maxrss} * 1024 - arena.reserved());
  out.categories = arena.peaks();
  return out;
}

// Early, so that nothing is computed for a place that cannot take it.
void make_output(Storage& storage, const std::string& out) {
  try {
    storage.make_directories(out);
  } catch (const Error& error) {
    throw Error(error.fault(), concat(error.what(), "; run.out must be a directory to write in"));
  }
}

// Steps, and what is due after each of them.
class Run {
 public:
  Run(const Config& config, const RunContext& context, Trainer& trainer, Metrics& metrics)
      : config_(config), context_(context), trainer_(trainer), metrics_(metrics) {}

  RunResult go() {
    RunResult result;
    while (trainer_.steps_done() < config_.train.steps) {
      StepRecord record = trainer_.train_step();
      const bool last = record.step == config_.train.steps;
      const bool stopping = context_.stop.load();
      if (is_due(config_.train.eval_every, record.step))
        result.eval_loss = record.eval_loss = trainer_.evaluate().loss;
      metrics_.write(record);
      report(record, last || stopping);
      if (!result.loss_first) result.loss_first = record.loss;
      result.loss_last = record.loss;
      if (last || stopping || is_due(config_.checkpoint.every, record.step)) save();
      if (stopping && !last) {
        result.stopped = true;
        break;
      }
    }
    result.steps = trainer_.steps_done();
    result.memory = {measured(trainer_.arena())};
    result.checkpoint = checkpoint_directory(config_);
    return result;
  }

 private:
  static bool is_due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

  void report(const StepRecord& record, bool always) {
    if (always || is_due(config_.train.log_every, record.step) || record.eval_loss)
      context_.log.info(to_line(record, config_.train.steps));
    context_.log.progress(to_progress(record, config_.train.steps));
  }

  void save() {
    const std::string directory = checkpoint_directory(config_);
    metrics_.sync();  // a checkpoint never knows of steps that the metrics do not
    trainer_.save(directory);
    context_.log.detail("saved step " + std::to_string(trainer_.steps_done()) + " in " + directory);
  }

  const Config& config_;
  const RunContext& context_;
  Trainer& trainer_;
  Metrics& metrics_;
};

}  // namespace

std::string checkpoint_directory(const Config& config) {
  return config.checkpoint.dir.empty() ? join_path(config.run.out, "checkpoints")
                                       : config.checkpoint.dir;
}

RunResult run_training(const ResolvedConfig& resolved, const RunOptions& options,
                       const RunContext& context) {
  const Config& config = resolved.config;
  const Preflight flight = preflight(config, options.peak_flops);
  context.log.info(preflight_text(flight, resolved));
  if (options.dry_run) {
    RunResult result;
    result.memory = {predicted(flight.memory)};
    return result;
  }
  // Found before anything is moved or allocated: a resume with nothing to go on from changes
  // nothing.
  const std::string from =
      options.resume         ? resolve_checkpoint(context.storage, checkpoint_directory(config))
      : options.from.empty() ? ""
                             : resolve_checkpoint(context.storage, options.from);
  make_output(context.storage, config.run.out);
  Trainer trainer(config, flight, context.storage, context.clock, context.log);
  if (options.resume)
    trainer.resume(from);
  else if (!from.empty())
    trainer.load_weights(from);
  if (!options.resume && !config.checkpoint.dir.empty())
    set_aside_checkpoints(context.storage, config.checkpoint.dir);
  Metrics metrics(context.storage, context.clock, config.run.out,
                  options.resume ? Start::Resume : Start::Fresh, trainer.steps_done(),
                  config.run.tensorboard);
  replace_file(context.storage, join_path(config.run.out, "config.toml"), to_toml(config));
  if (options.resume)
    context.log.info("resumed " + from + " after step " + std::to_string(trainer.steps_done()) +
                     (trainer.steps_done() >= config.train.steps
                          ? ": finished already; a larger train.steps goes on"
                          : ""));
  return Run(config, context, trainer, metrics).go();
}

}  // namespace sextant
