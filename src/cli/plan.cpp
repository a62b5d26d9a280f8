#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "cli/out_file.h"
#include "cli/plan_commands.h"
#include "cli/print.h"
#include "cli/values.h"
#include "config/load.h"
#include "config/model_presets.h"
#include "config/other_names.h"
#include "plan/explain.h"
#include "plan/gemm_time.h"
#include "plan/search.h"
#include "plan/search_space.h"
#include "train/plan_dry_run.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlanArguments {
  std::string model, cluster, precision, fixed, out, sweep, svg;
  int64_t batch = 0, seq = 0, top = 10;
  double critical_batch = 0, imbalance = 1;
  bool explain = false, largest = false, elastic = false, axes = false;
};

constexpr std::pair<const char*, NumberFormat> kFormats[] = {
    {"bf16", NumberFormat::Bf16},   {"fp16", NumberFormat::Fp16},
    {"fp32", NumberFormat::Fp32},   {"fp8", NumberFormat::Fp8Tensor},
    {"mxfp8", NumberFormat::Mxfp8}, {"nvfp4", NumberFormat::Nvfp4}};

// Of the linear layers: as asked for, or bf16, and fp16 on GPUs without it.
NumberFormat format_of(const PlanArguments& arguments, const Hardware& hardware) {
  std::vector<std::string> there;
  for (const auto& [name, format] : kFormats) {
    const bool is_there = peak_of(hardware, format) > 0;
    if (is_there) there.emplace_back(name);
    if (arguments.precision.empty() ? is_there : is_there && arguments.precision == name)
      return format;
  }
  SXT_FAIL(Usage, "--precision ", arguments.precision, ": ", hardware.name,
           " has no rate for it; it has ", join(there, ", "));
}

// Why `train` has no such run in any layout, or "".
std::string why_not_written(const PlanRequest& request) {
  const NumberFormat format = request.numerics.format;
  if (!is_narrow(format)) return "";
  if (format != NumberFormat::Fp8Tensor) return concat("`train` has no ", name_of(format));
  return format_refusal(request);
}

PlanRequest request_of(const PlanArguments& arguments, Context& context) {
  SXT_CHECK(!arguments.model.empty(), Usage, "--model is missing, such as --model llama-70b");
  SXT_CHECK(!arguments.cluster.empty(), Usage, "--cluster is missing, such as --cluster 64xH100");
  const std::optional<ModelConfig> model = model_preset(arguments.model);
  if (!model) {
    SXT_FAIL(Usage, "--model ", arguments.model,
             ": no preset is called so; `sextant config models` lists them",
             did_you_mean_preset(arguments.model));
  }
  SXT_CHECK(arguments.batch >= 1, Usage, "--batch is missing or 0: it takes the number of ",
            "sequences per step, such as --batch 1024");
  const Cluster cluster = parse_cluster(context.storage, arguments.cluster);
  PlanRequest request;
  request.shape = shape_of(*model, arguments.seq > 0 ? arguments.seq : model->seq);
  request.preset = arguments.model;
  request.hardware = cluster.hardware;
  request.gpus = cluster.gpus;
  request.batch = arguments.batch;
  SXT_CHECK(arguments.critical_batch >= 0, Usage, "--critical-batch ", arguments.critical_batch,
            ": takes a number of tokens, at least 0");
  request.critical_batch = arguments.critical_batch;
  request.fixed = parse_fixed(arguments.fixed);
  SXT_CHECK(arguments.top >= 1, Usage, "--top ", arguments.top,
            ": takes the number of layouts to list, at least 1");
  request.plans = static_cast<int>(arguments.top);
  request.numerics.format = format_of(arguments, request.hardware);
  request.practice.own = request.practice.each_micro = true;  // as `train` does
  SXT_CHECK(arguments.imbalance >= 1, Usage, "--imbalance ", arguments.imbalance,
            ": takes rows of the fullest rank against the mean, at least 1");
  request.practice.imbalance = arguments.imbalance;
  if (why_not_written(request).empty()) request.dry_run = dry_runner();
  if (request.hardware.generation >= GpuGeneration::Hopper)
    request.practice.attention = AttentionKernel::Library;
  return request;
}

Json to_json(const Layout& l) {
  return {{"dp", l.dp},
          {"shard", l.shard},
          {"zero", l.zero},
          {"tp", l.tp},
          {"sequence", l.sequence},
          {"cp", l.cp},
          {"cp_kind", name_of(l.cp_kind)},
          {"pp", l.pp},
          {"schedule", l.pp > 1 ? name_of(l.schedule) : "none"},
          {"chunks", l.chunks},
          {"ep", l.ep},
          {"etp", l.etp},
          {"micro", l.micro},
          {"recompute", name_of(l.recompute)},
          {"offload", name_of(l.offload)}};
}

Json to_json(const Plan& plan) {
  const double seconds = plan.time.total();
  Json terms = Json::array();
  for (const NamedTerm& term : named_terms(plan.time))
    terms.push_back({{"name", term.name}, {"seconds", term.seconds}});
  return {{"layout", to_json(plan.layout)},
          {"step_s", seconds},
          {"exact_s", plan.exact ? Json(*plan.exact) : Json()},
          {"reserved", plan.reserved ? Json(*plan.reserved) : Json()},
          {"tokens_per_s", plan.tokens_per_s},
          {"mfu", plan.mfu},
          {"memory",
           {{"weights", plan.memory.weights},
            {"gradients", plan.memory.gradients},
            {"optimizer", plan.memory.optimizer},
            {"gathered", plan.memory.gathered},
            {"activations", plan.memory.activations},
            {"logits", plan.memory.logits},
            {"fragments", plan.memory.fragments},
            {"outside", plan.memory.outside},
            {"total", plan.memory.total()}}},
          {"fits", plan.fits},
          {"interval", {plan.interval.low * seconds, plan.interval.high * seconds}},
          {"terms", terms}};
}

Json document_of(const PlanRequest& request, const PlanResult& result, double seconds,
                 const std::vector<RuleOfThumb>& rules) {
  Json plans = Json::array(), front = Json::array(), rejected = Json::array(),
       thumb = Json::array();
  for (const Plan& plan : result.plans) plans.push_back(to_json(plan));
  for (const Plan& plan : result.front) front.push_back(to_json(plan));
  for (const RejectedLayout& one : result.rejected)
    rejected.push_back({{"layout", to_json(one.layout)}, {"reason", one.reason}});
  Json document = {{"model", request.preset},
                   {"gpus", request.gpus},
                   {"gpu", request.hardware.name},
                   {"plans", plans},
                   {"front", front},
                   {"rejected", rejected},
                   {"reasons", result.reasons},
                   {"warnings", result.warnings},
                   {"evaluated", result.evaluated},
                   {"pruned", result.pruned},
                   {"simulated", result.simulated},
                   {"dry_runs", result.dry_runs},
                   {"seconds", seconds}};
  for (const RuleOfThumb& rule : rules) {
    Json one = {{"name", rule.name}, {"says", rule.says}, {"possible", rule.possible}};
    if (rule.possible) {
      one["layout"] = to_json(rule.layout);
      one["fits"] = rule.fits;
      one["step_s"] = rule.step_s;
    }
    thumb.push_back(one);
  }
  if (!rules.empty()) document["rules"] = thumb;
  return document;
}

// "Batch too small? Accumulate": what the first layout gains from it.
void print_accumulation(const std::vector<Accumulation>& rows) {
  print("\naccumulation in the first layout:\n");
  for (const Accumulation& row : rows)
    print(
        fmt::format("  {:>3} micro-batches, batch {:>6}: {:>9.4g} s, {:.4g} s a sequence, "
                    "{:.1f} % communication and waiting\n",
                    row.micros, row.batch, row.seconds, row.per_sequence, 100 * row.exposed));
}

void print_explanation(const PlanRequest& request, const PlanResult& result,
                       const std::vector<RuleOfThumb>& rules) {
  const Plan& best = result.plans[0];
  print("\nwhere the time of the first goes:\n");
  for (const NamedTerm& term : named_terms(best.time))
    print(fmt::format("  {:<44} {:>9.4g} s {:>6.1f} %\n", term.name, term.seconds,
                      100 * term.seconds / best.time.total()));
  if (result.plans.size() > 1)
    print(fmt::format("the second loses by {}\n", why_slower(best, result.plans[1])));
  print_accumulation(accumulation_table(request, Constants{}, best.layout));
  print("\nmemory, in closed form, against time (each is faster than all that need less):\n");
  for (const Plan& plan : result.front)
    print(fmt::format("  {:>7.1f} GiB {:>9.4g} s  {}\n", plan.memory.total() / kGiB,
                      plan.time.total(), to_text(plan.layout)));
  print("\nrejected:\n");
  for (const auto& [reason, count] : result.reasons)
    print(fmt::format("  {:>8} × {}\n", count, reason));
  for (const RejectedLayout& one : result.rejected)
    print(fmt::format("  {}: {}\n", to_text(one.layout), one.reason));
  print("\nrules of thumb, beside the numbers:\n");
  for (const RuleOfThumb& rule : rules) {
    print(fmt::format("  {}: {}\n", rule.name, rule.says));
    if (!rule.possible)
      print("    gives no layout for this cluster and batch\n");
    else
      print(fmt::format("    {} → {:.4g} s{}\n", to_text(rule.layout), rule.step_s,
                        rule.fits ? fmt::format(", {:+.0f} % against the first",
                                                100 * (rule.step_s / best.time.total() - 1))
                                  : ", does not fit"));
  }
}

void print_plans(const PlanRequest& request, const PlanResult& result, double seconds) {
  print(fmt::format("{} on {} × {}, {} sequences of {} tokens per step\n", request.preset,
                    request.gpus, request.hardware.name, request.batch, request.shape.seq));
  print(fmt::format("{:>3} {:>9} {:>19} {:>10} {:>6} {:>9}  {}\n", "", "step", "90 % interval",
                    "tokens/s", "MFU", "memory", "layout"));
  int rank = 1;
  for (const Plan& plan : result.plans) {
    const double t = plan.time.total();
    print(fmt::format("{:>3} {:>7.4g} s {:>8.4g} – {:<8.4g} {:>10} {:>5.1f}% {:>5} GiB  {}{}\n",
                      rank++, t, plan.interval.low * t, plan.interval.high * t,
                      format_count(plan.tokens_per_s), 100 * plan.mfu, memory_text(plan),
                      to_text(plan.layout),
                      plan.exact ? fmt::format("  ({:.4g} s by its trace)", *plan.exact) : ""));
  }
  print(fmt::format("{} layouts evaluated, {} branches cut, {} schedules simulated, {}, {:.2f} s\n",
                    result.evaluated, result.pruned, result.simulated,
                    counted(result.dry_runs, "dry run", "dry runs"), seconds));
  for (const std::string& text : result.warnings) print("warning: " + text + "\n");
}

void check_written(const PlanArguments& arguments, const PlanRequest& request) {
  const std::string refused = why_not_written(request);
  SXT_CHECK(arguments.out.empty() || refused.empty(), Usage, "--precision ", arguments.precision,
            " --out ", arguments.out, ": ", refused,
            "; it has bf16, fp16, fp32 and, for dense models, fp8, or leave out --out");
}

int run_plan(const PlanArguments& arguments, Context& context) {
  if (!arguments.out.empty()) check_out_file(context.storage, "--out", arguments.out, "run.toml");
  if (!arguments.svg.empty()) check_out_file(context.storage, "--svg", arguments.svg, "plan.svg");
  if (arguments.largest) return print_largest(arguments.cluster, context);
  if (arguments.elastic) {
    for (const std::string* given : {&arguments.model, &arguments.sweep, &arguments.out})
      SXT_CHECK(given->empty(), Usage,
                "--elastic takes only --cluster, --fix and --batch, leave out ", *given);
    return print_elastic(arguments.cluster, arguments.fixed, arguments.batch, context);
  }
  SXT_CHECK(arguments.svg.empty() || !arguments.sweep.empty(), Usage, "--svg ", arguments.svg,
            " draws a sweep, such as --sweep gpus=64..1024");
  const PlanRequest request = request_of(arguments, context);
  if (arguments.axes) {
    for (const std::string* given : {&arguments.sweep, &arguments.out, &arguments.fixed})
      SXT_CHECK(given->empty(), Usage, "--compare-axes gives all ranks to one axis, leave out ",
                *given);
    return print_axes(request, context);
  }
  if (!arguments.sweep.empty()) {
    SXT_CHECK(arguments.out.empty() && !arguments.explain, Usage, "--sweep ", arguments.sweep,
              " lists one layout for each value, leave out --out and --explain");
    return print_sweep(request, arguments.sweep, arguments.svg, context);
  }
  check_written(arguments, request);
  const double start = context.clock.now();
  PlanResult result = search_plans(request, Constants{});
  time_exactly(result, request, arguments.cluster, context);
  const double seconds = context.clock.now() - start;
  const std::string unwritten = why_not_written(request);
  if (!unwritten.empty()) result.warnings.push_back("priced only, without a dry run: " + unwritten);
  std::vector<RuleOfThumb> rules;
  if (arguments.explain) rules = rules_of_thumb(request, Constants{});
  const Plan* written = nullptr;
  if (!arguments.out.empty() && !result.plans.empty()) {
    written = &result.plans[0];
    write_out_file(context.storage, arguments.out, to_run_file(request, written->layout));
  }
  if (context.json) {
    Json document = document_of(request, result, seconds, rules);
    if (arguments.explain && !result.plans.empty()) {
      Json rows = Json::array();
      for (const Accumulation& row :
           accumulation_table(request, Constants{}, result.plans[0].layout))
        rows.push_back({{"micros", row.micros},
                        {"batch", row.batch},
                        {"step_s", row.seconds},
                        {"per_sequence_s", row.per_sequence},
                        {"exposed", row.exposed}});
      document["accumulation"] = rows;
    }
    if (written != nullptr) document["written"] = to_json(written->layout);
    print_json(document);
  } else if (!result.plans.empty()) {
    print_plans(request, result, seconds);
    if (arguments.explain) print_explanation(request, result, rules);
    if (written != nullptr)
      print(fmt::format("{}: {}, {:.4g} s, passes the dry run\n", arguments.out,
                        to_text(written->layout), written->time.total()));
  }
  if (result.plans.empty()) {
    std::string reason;
    for (const auto& [text, count] : result.reasons)
      reason += fmt::format("; {} × {}", count, text);
    std::string nearest;
    const std::string excluding = excluding_axis(request);
    if (!excluding.empty())
      nearest = ": " + excluding;
    else if (!result.rejected.empty())
      nearest =
          fmt::format(": {} {}", to_text(result.rejected[0].layout), result.rejected[0].reason);
    const Fault fault =
        result.reasons.contains("does not fit in memory") ? Fault::Memory : Fault::Config;
    throw Error(fault, concat("no layout of ", request.preset, " works on ", arguments.cluster,
                              nearest, reason));
  }
  return 0;
}

}  // namespace

std::string memory_text(const Plan& plan) {
  return plan.reserved ? fmt::format("{:.2f}", static_cast<double>(*plan.reserved) / kGiB)
                       : fmt::format("~{:.1f}", plan.memory.total() / kGiB);
}

Command plan_command() {
  auto a = std::make_shared<PlanArguments>();
  return {
      .name = "plan",
      .help = "Find the fastest layout of a model on a cluster, and say what it costs",
      .options = {{.names = "--model",
                   .help = "A preset, such as llama-70b",
                   .target = &a->model,
                   .values = preset_values()},
                  {.names = "--cluster",
                   .help = "COUNTxGPU, such as 64xH100, or 64xmine.toml",
                   .target = &a->cluster,
                   .values = cluster_values()},
                  {.names = "--batch", .help = "Sequences per step", .target = &a->batch},
                  {.names = "--seq",
                   .help = "Tokens per sequence; 0: as long as the model takes",
                   .target = &a->seq},
                  {.names = "--critical-batch",
                   .help = "Tokens of the critical batch; a larger batch gets a warning",
                   .target = &a->critical_batch},
                  {.names = "--imbalance",
                   .help = "Rows of the fullest rank of experts against the mean (1)",
                   .target = &a->imbalance},
                  {.names = "--precision",
                   .help = "Number format of the linear layers (bf16; fp16 on GPUs without it)",
                   .target = &a->precision,
                   .choices = {"bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4"}},
                  {.names = "--fix",
                   .help = "Axes that are given, such as tp=8,pp=4,zero=1,schedule=1f1b",
                   .target = &a->fixed},
                  {.names = "--top",
                   .help = "How many layouts to list",
                   .target = &a->top,
                   .largest = 100},
                  {.names = "--explain",
                   .help = "Terms, runner-up, memory front, rejected layouts, rules of thumb",
                   .target = &a->explain},
                  {.names = "--largest",
                   .help = "Only the most parameters whose states fit, by ZeRO stage",
                   .target = &a->largest},
                  {.names = "--elastic",
                   .help = "Only the node counts that the axes of --fix can grow to",
                   .target = &a->elastic},
                  {.names = "--compare-axes",
                   .help = "Only a table of what each axis alone moves, holds and costs",
                   .target = &a->axes},
                  {.names = "--sweep",
                   .help = "The best layout for each of gpus=64..1024, batch=256,512 or micro=1..8",
                   .target = &a->sweep},
                  {.names = "--svg", .help = "Draw the sweep into this file", .target = &a->svg},
                  {.names = "--out",
                   .help = "Write the first as a configuration",
                   .target = &a->out}},
      .run = [a](Context& context) { return run_plan(*a, context); },
      .subcommands = {plan_explain_command(), plan_evaluate_command(), plan_hardware_command()}};
}

}  // namespace sextant::cli
