#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/kept_file.h"
#include "bench/kept_outside.h"
#include "bench/machine_peak.h"
#include "blueprint/blueprint.h"
#include "checkpoint/hf.h"
#include "cli/command.h"
#include "cli/measured_run.h"
#include "cli/memory_json.h"
#include "cli/out_file.h"
#include "cli/pipeline_json.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "cli/train_summary.h"
#include "comm/launch.h"
#include "comm/mpi_world.h"
#include "comm/mpirun.h"
#include "tensor/device.h"
#include "train/fit_advice.h"
#include "train/memory_curve.h"
#include "train/preflight.h"
#include "train/run.h"
#include "train/run_paths.h"
#include "train/world.h"

namespace sextant::cli {
namespace {

struct TrainArguments {
  std::string config, from, resume, svg, hardware;
  int64_t ranks = 0;
  bool dry_run = false;
};

using Json = nlohmann::ordered_json;

Json change_json(const FitChange& change) {
  return {{"overrides", change.overrides},
          {"reserved", change.reserved},
          {"step_ratio", change.step_ratio},
          {"narrows", change.narrows}};
}

// The size of a step, in the document of a dry run.
Json size_json(const Config& config) {
  const Blueprint blueprint = make_blueprint(config.model);
  const double flops = blueprint.flops_per_token(config.model.seq);
  return {{"parameters", blueprint.parameters()},
          {"active_parameters", blueprint.active_parameters()},
          {"flops_per_token", flops},
          {"flops_per_step", flops * static_cast<double>(config.batch.global * config.model.seq)},
          {"batch",
           {{"global", config.batch.global},
            {"micro", config.batch.micro},
            {"accumulation", config.batch.accumulation},
            {"tokens", config.batch.global * config.model.seq}}}};
}

// Of a run that does not fit.
Json to_json(const Preflight& flight, const FitAdvice& advice, const Config& config) {
  Json changes = Json::array();
  for (const FitChange& change : advice.changes) changes.push_back(change_json(change));
  Json json = {{"fits", false},
               {"memory_limit", flight.memory_limit},
               {"memory", memory_json(flight)},
               {"largest",
                {{"rank", advice.rank},
                 {"category", name_of(advice.largest)},
                 {"bytes", advice.largest_bytes}}},
               {"changes", changes},
               {"least", nullptr},
               {"tried", advice.tried},
               {"untried", advice.untried}};
  if (advice.least) json["least"] = change_json(*advice.least);
  json.update(size_json(config));
  return json;
}

Json sends_json(const StepSends& sends) {
  Json rows = Json::array();
  for_each_sent(sends.all, [&](const AxisTraffic& axis, Operation operation, const Traffic& all) {
    const Traffic first = sends.first.of(axis.axis(), operation);
    Json row = {{"axis", axis.axis()},  {"operation", name_of(operation)},
                {"calls", first.calls}, {"elements", first.elements},
                {"bytes", first.bytes}, {"all_ranks_bytes", all.bytes}};
    if (sends.exposed)
      row["exposed_s"] = (*sends.exposed)[static_cast<size_t>(&axis - sends.all.axes().data())]
                                         [static_cast<size_t>(operation)];
    rows.push_back(std::move(row));
  });
  return rows;
}

Json to_json(const RunResult& result, const Config& config) {
  Json memory = Json::array();
  for (const RankMemory& rank : result.memory)
    memory.push_back({{"rank", rank.rank},
                      {"peak", rank.peak},
                      {"reserved", rank.reserved},
                      {"outside", rank.outside},
                      {"host", rank.host},
                      {"categories", categories_json(rank.categories)}});
  Json json = {{"steps", result.steps},
               {"loss_first", nullptr},
               {"loss_last", nullptr},
               {"memory", memory},
               {"sent", sends_json(result.sends)},
               {"checkpoint", result.checkpoint}};
  if (result.loss_first) json["loss_first"] = *result.loss_first;
  if (result.compared) json["compared"] = compared_json(*result.compared);
  if (result.loss_last) json["loss_last"] = *result.loss_last;
  if (result.eval_loss) json["eval_loss"] = *result.eval_loss;
  if (config.parallel.pp > 1) json["pipeline"] = pipeline_json(pipeline_outlook(config));
  return json;
}

// All ranks as processes, which advise nothing. The peak is measured before they use the machine.
int start_ranks(const ResolvedConfig& resolved, const RunOptions& options, Context& context) {
  const Config& config = resolved.config;
  fitting_forecast(resolved, options, {context.storage, context.clock, context.log, context.stop});
  check_run_paths(config);
  std::vector<std::string> words = context.words;
  words.push_back(
      concat("--run.peak_flops=", kept_machine_peak(config, context.storage, context.log)));
  return run_mpirun(world_size(config.parallel), words, config.run.mpirun, context.clock);
}

void draw_memory(const Config& config, const Preflight& flight, const std::string& path,
                 Context& context) {
  write_out_file(context.storage, path,
                 memory_svg(memory_curves(config, flight), config, flight.memory_limit));
}

// The table of a run that does not fit, after its error; unless quiet also what would make it fit.
void explain(const ResolvedConfig& resolved, const Preflight& flight, Context& context) {
  context.after_error = preflight_text(flight, resolved);
  if (context.log.level() == LogLevel::Quiet && !context.json) return;
  const FitAdvice advice =
      advise_fit(resolved, flight, operations_for_trials(resolved.config, flight));
  context.after_error += advice_text(advice);
  if (context.json) print_json(to_json(flight, advice, resolved.config));
}

// Who starts the ranks of a run.
enum class Starts { ThisProcess, Mpirun };

// Error(Config) if the launcher does not fit the transport.
Starts check_launch(const Config& config, const Launch& launch, const TrainArguments& arguments,
                    const Context& context) {
  const int ranks = world_size(config.parallel);
  if (config.run.transport == Transport::Threads) {
    check_threads_launch(launch, ranks, context.words);
    return Starts::ThisProcess;
  }
  if (config.run.transport == Transport::Nccl) {
    check_nccl_launch(launch, ranks);
    if (!arguments.dry_run) prepare_nccl(config);
    return Starts::ThisProcess;
  }
  check_mpi_launch(launch, ranks, context.words);
  SXT_CHECK(MpiWorld::is_built(), Config, "run.transport = mpi: this build has no MPI; install ",
            "libopenmpi-dev and openmpi-bin and build again, or use run.transport = threads");
  return launch.kind == LaunchKind::None && !arguments.dry_run ? Starts::Mpirun
                                                               : Starts::ThisProcess;
}

int run_train(const TrainArguments& arguments, Context& context) {
  SXT_CHECK(
      arguments.resume.empty() || arguments.from.empty() || arguments.resume == kAutoCheckpoint,
      Usage, "--resume and --from exclude each other: --resume goes on with a run, --from ",
      "starts one; --resume=auto does what is needed");
  SXT_CHECK(arguments.svg.empty() || arguments.dry_run, Usage, "--svg ", arguments.svg,
            " draws the memory of a dry run: add --dry-run");
  if (!arguments.svg.empty()) check_out_file(context.storage, "--svg", arguments.svg, "memory.svg");
  const ResolvedConfig resolved =
      load_settings(context, arguments.config, {arguments.from, !arguments.resume.empty()});
  const int ranks = world_size(resolved.config.parallel);
  SXT_CHECK(arguments.ranks == 0 || arguments.ranks == ranks, Config, "-n ", arguments.ranks,
            " does not fit [parallel], whose degrees make ", ranks,
            ranks == 1 ? " rank" : " ranks");
  check_listed_ranks(context, resolved.config);
  const Launch launch = find_launch(process_environment());
  RunOptions options;
  std::optional<KnownHardware> hardware;
  if (!arguments.hardware.empty()) {
    hardware = read_hardware(context.storage, arguments.hardware);
    if (launch.rank == 0)
      options.predict = [&](const Preflight& flight) {
        return predict_step(resolved.config, flight, *hardware, context.log);
      };
  }
  options.on_too_large = [&](const Preflight& flight) {
    if (launch.rank == 0 && !arguments.svg.empty())
      draw_memory(resolved.config, flight, arguments.svg, context);
    if (launch.rank == 0) return explain(resolved, flight, context);
    // A launcher ends the other ranks with the first: none may end while that one still tries.
    advise_fit(resolved, flight, operations_for_trials(resolved.config, flight));
  };
  options.on_dry_run = [&](const Preflight& flight, const RunResult& result) {
    if (launch.rank != 0) return;
    if (!arguments.svg.empty()) draw_memory(resolved.config, flight, arguments.svg, context);
    if (!context.json) return;
    Json json = to_json(result, resolved.config);
    json.update(size_json(resolved.config));
    print_json(json);
  };
  if (check_launch(resolved.config, launch, arguments, context) == Starts::Mpirun)
    return start_ranks(resolved, options, context);
  Log silent(LogLevel::Quiet, Color::Never);
  Log& log = launch.rank == 0 ? context.log : silent;  // the first rank speaks for all
  if (!launch.text.empty()) log.info(launch.text);
  options.resume = !arguments.resume.empty();
  if (options.resume) options.resume_from = arguments.resume;
  options.dry_run = arguments.dry_run;
  options.from = arguments.from;
  if (launch.rank == 0)
    options.peak_flops = kept_machine_peak(resolved.config, context.storage, log);
  if (launch.rank == 0 && resolved.config.run.device == RunDevice::Cuda)
    options.outside =
        kept_outside(context.storage, cache_directory(), list_gpus()).value_or(assumed_outside());
  const RunResult result =
      run_training(resolved, options, {context.storage, context.clock, log, context.stop});
  if (launch.rank != 0) return result.stopped ? 6 : 0;
  if (arguments.dry_run) return 0;
  if (result.compared)
    write_run_row(context.storage, resolved.config, *hardware, *result.compared, context.log);
  if (result.best_mfu > 1) renew_machine_peak(resolved.config, context.storage, log);
  if (result.stopped)
    log.info(concat("stopped by ", result.timed_out ? "train.max_hours" : "a signal",
                    "; saved step ", result.steps, ", go on with --resume"));
  log.info(summary_text(context.storage, result, resolved.config, context.words));
  if (context.json) print_json(to_json(result, resolved.config));
  return result.stopped ? 6 : 0;
}

}  // namespace

Command train_command() {
  const auto arguments = std::make_shared<TrainArguments>();
  return {
      "train",
      "Train a model as a configuration says",
      {{"run.toml", "Configuration file; without one, settings on the command line suffice",
        &arguments->config},
       {"--from",
        "Start from the model and weights of this checkpoint, run.out or Hugging Face directory",
        &arguments->from},
       {"--resume",
        "Resume from the latest checkpoint of the run; --resume=step-8: from that one; "
        "--resume=auto: from the newest whole one, or afresh where there is none at all",
        &arguments->resume,
        Option::Need::Optional,
        {},
        {},
        std::string(kLatestName)},
       {"--dry-run", "Stop after the pre-flight table", &arguments->dry_run},
       {"--svg", "With --dry-run: draw the memory of each kind of rank over a step into this file",
        &arguments->svg},
       {"--hardware",
        "Compare steps with their prediction for this GPU or hardware file (sextant bench "
        "calibrate)",
        &arguments->hardware},
       {"-n,--ranks", "Check that the layout has this many ranks", &arguments->ranks}},
      [arguments](Context& context) { return run_train(*arguments, context); },
      Accepts::Overrides,
      Stops::WhenReady,
      {},
      "stopping after this step, with a checkpoint; Ctrl-C again ends at once"};
}

}  // namespace sextant::cli
