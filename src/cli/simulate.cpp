#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "cli/command.h"
#include "cli/out_file.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "cli/simulate_arguments.h"
#include "cli/simulate_cluster.h"
#include "cli/simulate_compare.h"
#include "cli/simulate_step.h"
#include "cli/values.h"
#include "formats/chrome_trace.h"
#include "program/pipeline.h"
#include "program/stages.h"
#include "schedule/make_schedule.h"
#include "schedule/print.h"
#include "schedule/schedule_csv.h"
#include "schedule/validate.h"
#include "sim/picture.h"
#include "sim/simulate.h"
#include "sim/target.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostSearched = 1 << 21;  // stages times micro-batches, for --target-bubble

struct Simulated {
  ScheduleRequest request;
  Costs costs;
  bool has_bytes = false;
  const char* default_times = "1,1,1";  // in words
  std::optional<double> target = {}, formula = {};
  Schedule schedule = {};
  Timeline timeline = {};
  Figures figures = {};
  std::optional<CompareReport> compared = {};
  std::optional<StepReport> run = {};
};

// (p - 1) / (v m + p - 1), where backward is whole, stages equal and messages take no time.
std::optional<double> bubble_formula(const ScheduleRequest& request) {
  for (const ScheduleInfo& info : schedule_table())
    if (info.name == request.name && info.splits_backward) return {};
  // Too few micros leave gaps between the rounds of the chunks.
  if (request.chunks > 1 && request.micros < request.ranks) return {};
  const double p = request.ranks, m = request.micros, v = request.chunks;
  return (p - 1) / (v * m + p - 1);
}

// A number of micro-batches for which there is no such schedule is stepped over; what is wrong with
// the request itself shows at the number where every schedule exists.
int find_micros(const ScheduleRequest& request, const Costs& costs, double target) {
  const auto make = [&](int micros) -> std::optional<Schedule> {
    ScheduleRequest asked = request;
    asked.micros = micros;
    try {
      return make_schedule(asked);
    } catch (const Error&) {
      if (micros == 2 * request.ranks) throw;
      return {};
    }
  };
  const int64_t stages = int64_t{request.ranks} * request.chunks;
  const int most = static_cast<int>(std::max<int64_t>(1, kMostSearched / stages));
  return least_micros(target, most, 2 * request.ranks, costs, make).micros;
}

Schedule read_schedule(Context& context, const SimulateArguments& arguments) {
  refuse_options({{"--schedule", arguments.schedule},
                  {"--stages", arguments.stages},
                  {"--micros", arguments.micros},
                  {"--chunks", arguments.chunks},
                  {"--group", arguments.group},
                  {"--target-bubble", arguments.target}},
                 concat("--from ", arguments.from, " gives a whole schedule"));
  const Schedule schedule =
      read_schedule_csv(read_text(context.storage, arguments.from), arguments.from);
  validate(schedule);
  return schedule;
}

void set_messages(Simulated& made, const SimulateArguments& arguments) {
  made.costs.latency = made.request.message_time;
  made.costs.wire = parse_time("--wire", arguments.wire);
  if (!arguments.overlap.empty()) made.costs.overlap = parse_time("--overlap", arguments.overlap);
}

void finish(Simulated& made) {
  made.timeline = simulate(made.schedule, made.costs);
  made.figures = measure(made.timeline);
  if (made.request.memory_limit > 0)
    check_memory(made.schedule, made.costs.stages, made.request.memory_limit);
}

// They time the operations of a run's step.
void refuse_rates(const SimulateArguments& arguments, const std::string& because) {
  refuse_options({{"--flops", arguments.flops},
                  {"--bandwidth", arguments.bandwidth},
                  {"--link", arguments.link},
                  {"--host", arguments.host},
                  {"--latency", arguments.latency},
                  {"--launch", arguments.launch},
                  {"--hardware", arguments.hardware}},
                 because);
}

Simulated simulate_as_asked(Context& context, const SimulateArguments& arguments) {
  refuse_rates(arguments, "without a run.toml there are no operations to time");
  SXT_CHECK(arguments.compare.empty(), Usage, "--compare ", arguments.compare,
            " needs the configuration of the run that left it: sextant simulate run.toml "
            "--compare ...");
  Simulated made{request_of(arguments), {}};
  made.costs.stages = made.request.costs;
  made.has_bytes = !arguments.memory.empty();
  set_messages(made, arguments);
  if (!arguments.target.empty() && arguments.from.empty()) {
    SXT_CHECK(arguments.micros.empty(), Usage,
              "--target-bubble finds the number of micro-batches, leave out --micros ",
              arguments.micros);
    made.target = parse_share("--target-bubble", arguments.target);
    made.request.micros = find_micros(made.request, made.costs, *made.target);
  }
  made.schedule =
      arguments.from.empty() ? make_schedule(made.request) : read_schedule(context, arguments);
  finish(made);
  if (arguments.from.empty()) made.formula = bubble_formula(made.request);
  return made;
}

// The run's memory, and the time of its step where its operations are timed.
StepReport report_run(const Config& config, const SimulateArguments& arguments, Context& context) {
  StepReport report{forecast(config, 0)};
  if (!arguments.compare.empty() || !arguments.times.empty())
    refuse_rates(arguments, arguments.times.empty() ? "--compare measures all times"
                                                    : "--times gives all times");
  else
    report.step = arguments.hardware.empty()
                      ? time_run(config, report.flight, arguments, context.clock)
                      : time_on(config, report.flight, arguments, context.storage);
  return report;
}

// What the ranks of a run's pipeline do, with estimated times, given ones, or those of its trace.
Simulated simulate_run(Context& context, const SimulateArguments& arguments) {
  refuse_options({{"--schedule", arguments.schedule},
                  {"--stages", arguments.stages},
                  {"--micros", arguments.micros},
                  {"--chunks", arguments.chunks},
                  {"--group", arguments.group},
                  {"--target-bubble", arguments.target},
                  {"--from", arguments.from}},
                 "the run's configuration gives the schedule ([parallel], [batch])");
  const Config config = load_settings(context, arguments.config).config;
  check_listed_ranks(context, config);
  const Blueprint blueprint = make_blueprint(config.model);
  const Pipeline pipeline =
      make_pipeline(blueprint, config.parallel, static_cast<int>(config.batch.accumulation));
  Simulated made{request_of(arguments), {}};
  made.schedule = pipeline.schedule;
  made.has_bytes = !arguments.memory.empty();
  if (!arguments.compare.empty()) {
    refuse_options({{"--times", arguments.times},
                    {"--comm", arguments.comm},
                    {"--wire", arguments.wire},
                    {"--overlap", arguments.overlap}},
                   concat("--compare ", arguments.compare, " measures all times"));
    const std::vector<Span> spans = read_trace(context.storage, arguments.compare);
    const int pipelines = world_size(config.parallel) / config.parallel.pp;
    made.compared.emplace(CompareReport{
        arguments.compare, pipelines,
        compare(pipeline.schedule,
                measured_steps(spans, pipeline.schedule, {0, pipelines}, arguments.compare)),
        suggest_split(spans, blueprint, pipeline.stages)});
    made.costs = made.compared->comparison.times.costs;
  } else {
    made.costs.stages = made.request.costs;
    if (arguments.times.empty()) {
      made.default_times = "estimated (the forward of a block is 1)";
      made.costs.stages.clear();
      for (const Range& stage : pipeline.stages)
        made.costs.stages.push_back(stage_cost(blueprint, stage));
    }
    set_messages(made, arguments);
  }
  if (made.has_bytes) set_memory(made.costs.stages, arguments.memory);
  finish(made);
  made.run = report_run(config, arguments, context);
  return made;
}

// In-flight micro-batches, a whole number.
std::vector<int64_t> counted_peak(const Schedule& schedule) {
  const std::vector<double> peak = peak_memory(schedule, std::vector<StageCost>{kCountHeld});
  return {peak.begin(), peak.end()};
}

std::vector<int64_t> peak_bytes(const Simulated& made) {
  const std::vector<double> peak = peak_memory(made.schedule, made.costs.stages);
  return {peak.begin(), peak.end()};
}

Json to_json(const Simulated& made) {
  const Figures& figures = made.figures;
  Json out = {{"schedule", made.schedule.name},
              {"stages", made.schedule.size()},
              {"micros", made.schedule.micros},
              {"chunks", made.schedule.chunks()},
              {"makespan", figures.makespan},
              {"idle", figures.idle},
              {"work", figures.work},
              {"span_bubble", figures.span_bubble},
              {"bubble_fraction", figures.bubble_fraction},
              {"bubble_overhead", figures.bubble_overhead},
              {"utilisation", figures.utilisation},
              {"peak", counted_peak(made.schedule)}};
  if (made.has_bytes) out["peak_bytes"] = peak_bytes(made);
  if (made.formula) out["bubble_formula"] = *made.formula;
  if (made.target) out["target_bubble"] = *made.target;
  out["order"] = order(made.schedule);
  if (made.run) add_json(out, *made.run);
  if (made.compared) out["compare"] = to_json(*made.compared);
  return out;
}

std::string rank_table(const Simulated& made) {
  const std::vector<int64_t> peak = counted_peak(made.schedule), bytes = peak_bytes(made);
  std::string out = fmt::format("{:>4} {:>10} {:>10} {:>6}{}\n", "rank", "work", "idle", "peak",
                                made.has_bytes ? "      memory" : "");
  for (size_t rank = 0; rank < peak.size(); ++rank) {
    out += fmt::format("{:>4} {:>10.6g} {:>10.6g} {:>6}", rank, made.figures.work[rank],
                       made.figures.idle[rank], peak[rank]);
    if (made.has_bytes) out += fmt::format("{:>12}", format_bytes(bytes[rank]));
    out += "\n";
  }
  return out;
}

int width_of(const SimulateArguments& arguments) {
  constexpr int kUsual = 120;
  if (arguments.width > 0) return static_cast<int>(arguments.width);
  const size_t terminal = terminal_width(stdout);
  return terminal > 0 ? static_cast<int>(terminal) : kUsual;
}

std::string to_text(const Simulated& made, const SimulateArguments& arguments) {
  if (made.compared)
    return to_text(*made.compared, made.schedule, width_of(arguments)) + "\n" + to_text(*made.run);
  const Schedule& schedule = made.schedule;
  const Figures& figures = made.figures;
  std::string out;
  if (made.target)
    out +=
        fmt::format("{} for a bubble of at most {:.6g} %\n",
                    counted(schedule.micros, "micro-batch", "micro-batches"), 100 * *made.target);
  out += fmt::format("{}: {}, {}, times {}, messages {}{}\n\n", schedule.name,
                     counted(schedule.size(), "rank", "ranks"),
                     counted(schedule.micros, "micro-batch", "micro-batches"),
                     arguments.times.empty() ? made.default_times : arguments.times,
                     arguments.comm.empty() ? "0" : arguments.comm,
                     arguments.overlap.empty() ? "" : ", joined blocks " + arguments.overlap);
  out += timeline_text(schedule, made.timeline, width_of(arguments));
  out += "\n" + rank_table(made) + "\n";
  out += fmt::format("makespan     {:.6g}\nspan bubble  {:.6g}\n", figures.makespan,
                     figures.span_bubble);
  out += fmt::format("bubble       {:.2f} % of the makespan, {:.2f} % over the work{}\n",
                     100 * figures.bubble_fraction, 100 * figures.bubble_overhead,
                     made.formula
                         ? fmt::format(" (formula for equal stages: {:.2f} %)", 100 * *made.formula)
                         : "");
  out += fmt::format("utilisation  {:.2f} %\n", 100 * figures.utilisation);
  return made.run ? out + "\n" + to_text(*made.run) : out;
}

std::string to_svg(const Simulated& made) {
  if (made.compared) return compare_svg(made.schedule, made.compared->comparison);
  const std::vector<StageCost> counted_held = {kCountHeld};
  return timeline_svg(made.schedule, made.timeline,
                      made.has_bytes ? made.costs.stages : counted_held);
}

// Before the work.
void check_outputs(const SimulateArguments& arguments, Storage& storage) {
  if (!arguments.svg.empty()) check_out_file(storage, "--svg", arguments.svg, "schedule.svg");
  if (!arguments.trace.empty()) check_out_file(storage, "--trace", arguments.trace, "trace.json");
  if (!arguments.csv.empty()) check_out_file(storage, "--csv", arguments.csv, "schedule.csv");
}

int run_simulate(const SimulateArguments& arguments, Context& context) {
  check_outputs(arguments, context.storage);
  if (!arguments.cluster.empty()) return simulate_on_cluster(arguments, context);
  refuse_cluster_options(arguments);
  const bool is_run = !arguments.config.empty() || !context.overrides.empty();
  const Simulated made =
      is_run ? simulate_run(context, arguments) : simulate_as_asked(context, arguments);
  if (!arguments.svg.empty()) write_out_file(context.storage, arguments.svg, to_svg(made));
  if (!arguments.trace.empty())
    write_out_file(
        context.storage, arguments.trace,
        chrome_trace(made.run && made.run->step ? step_spans(made.run->step->time)
                                                : timeline_spans(made.schedule, made.timeline)));
  if (!arguments.csv.empty())
    write_out_file(context.storage, arguments.csv, write_schedule_csv(made.schedule));
  if (context.json)
    print_json(to_json(made));
  else
    print(to_text(made, arguments));
  return 0;
}

}  // namespace

Command simulate_command() {
  const auto made = std::make_shared<SimulateArguments>();
  using enum Option::Need;
  return {
      "simulate",
      "Time, idle time and memory of a pipeline schedule or a run, without running it",
      {{"run.toml", "Run to simulate; without one the options describe a schedule", &made->config},
       {"--compare", "Compare with the trace of a run (run.trace = true; the file, or run.out)",
        &made->compare},
       {"--schedule", "Schedule (1f1b)", &made->schedule, Optional, schedule_names()},
       {"--stages", "Ranks of the pipeline (4)", &made->stages},
       {"--micros", "Micro-batches of a step (8)", &made->micros},
       {"--chunks", "Virtual stages of each rank (1; V-shaped schedules have 2)", &made->chunks},
       {"--times", "Times of forward, input and weight gradient (1,1,1); per stage: 1,1,1/2,2,2",
        &made->times},
       {"--comm", "Delay of a message between ranks (0)", &made->comm},
       {"--wire", "Time that a message occupies its link, so that others queue", &made->wire},
       {"--overlap", "Time of a forward and a backward that overlap (DualPipe)", &made->overlap},
       {"--memory", "Bytes of a forward, and those that its weight gradient needs: 34MiB,32MiB",
        &made->memory},
       {"--memory-limit", "Limit of a rank: in-flight micro-batches, or bytes with --memory",
        &made->memory_limit},
       {"--target-bubble", "Find the fewest micro-batches for this bubble, such as 5%",
        &made->target},
       {"--from", "A schedule from a CSV file, as --csv writes it", &made->from},
       {"--flops", "FLOP/s of a rank (measured here, divided by the ranks)", &made->flops},
       {"--bandwidth", "Memory bandwidth of a rank in bytes/s (measured likewise)",
        &made->bandwidth},
       {"--link", "Link bandwidth of a rank in bytes/s (half of --bandwidth)", &made->link},
       {"--host", "Bytes/s of a rank to and from the host's memory, for offload (--bandwidth)",
        &made->host},
       {"--latency", "Latency in seconds of a message, or of a round of a collective (0)",
        &made->latency},
       {"--launch", "Launch overhead in seconds of each operation (0)", &made->launch},
       {"--hardware", "Time the step with the costs of this file (sextant bench calibrate)",
        &made->hardware},
       {.names = "--cluster",
        .help = "The whole run on a cluster, such as 16384xH100, with interruptions",
        .target = &made->cluster,
        .values = cluster_values()},
       {"--tokens", "Tokens to train on, such as 15.6T (train.steps)", &made->tokens},
       {"--interruptions", "Interruptions per GPU against the published ones (1; 0: none)",
        &made->interruptions},
       {"--checkpoint-cost", "Seconds that a checkpoint blocks training (state at 1 GB/s per node)",
        &made->checkpoint_cost},
       {"--checkpoint-interval", "Seconds between checkpoints (checkpoint.every, or the best)",
        &made->checkpoint_interval},
       {"--restart", "Seconds from an interruption until training goes on (600)", &made->restart},
       {"--stragglers", "Share of slow nodes and their factor, such as 0.1%x1.2",
        &made->stragglers},
       {"--price", "Cost of a GPU-hour", &made->price},
       {"--flow", "With --cluster: every rank and link of a step, which transfers share",
        &made->flow},
       {"--slow-rank", "With --flow: a rank and how much slower it computes, such as 17x1.5",
        &made->slow_rank},
       {"--slow-link", "With --flow: a rank and how much slower its network link is, such as 17x4",
        &made->slow_link},
       {"--svg", "Draw the timeline into this file", &made->svg},
       {"--trace", "Write a Chrome trace for Perfetto; with a run, every operation of its step",
        &made->trace},
       {"--csv", "Write the schedule", &made->csv},
       {"--width", "Columns of the text timeline (0: of the terminal, elsewhere 120)",
        &made->width}},
      [made](Context& context) { return run_simulate(*made, context); },
      Accepts::Overrides};
}

}  // namespace sextant::cli
