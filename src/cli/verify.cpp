#include "train/verify.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "comm/launch.h"

namespace sextant::cli {
namespace {

struct VerifyArguments {
  std::string config;
  VerifyOptions options;
};

nlohmann::ordered_json to_json(const VerifyReport& report) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const TensorVerdict& tensor : report.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"verdict", name_of(tensor.verdict)},
                       {"bitwise", tensor.bitwise},
                       {"grad_max_rel", tensor.grad_max_rel},
                       {"update_max_rel", tensor.update_max_rel},
                       {"free_rel", tensor.free_rel},
                       {"judged", tensor.is_judged}});
    if (report.is_narrow) {
      tensors.back()["error_rel"] = tensor.error_rel;
      tensors.back()["reference_error_rel"] = tensor.reference_error_rel;
    }
    if (!tensor.problem.empty()) tensors.back()["problem"] = tensor.problem;
  }
  return {{"verdict", name_of(report.verdict)},
          {"bitwise", report.bitwise},
          {"loss_max_rel", report.loss_max_rel},
          {"grad_max_rel", report.grad_max_rel},
          {"update_max_rel", report.update_max_rel},
          {"norm_max_rel", report.norm_max_rel},
          {"free",
           {{"ran", report.ran_free},
            {"loss_max_rel", report.free_loss_max_rel},
            {"norm_max_rel", report.free_norm_max_rel},
            {"update_max_rel", report.free_max_rel}}},
          {"problems", report.problems},
          {"end", report.end},
          {"steps", report.steps},
          {"layout", report.layout},
          {"against", report.against},
          {"tensors", tensors}};
}

int run_verify(const VerifyArguments& arguments, Context& context) {
  const ResolvedConfig resolved = load_settings(context, arguments.config);
  const Launch launch = find_launch(process_environment());
  SXT_CHECK(launch.size == 1, Config, "verify runs all ranks in one process, but this is one of ",
            launch.size, " (", launch.text, "): start it once, without a launcher");
  const VerifyReport report =
      verify_layout(resolved.config, arguments.options,
                    {context.storage, context.clock, context.log, context.stop});
  context.log.end_progress();
  if (context.json)
    print_json(to_json(report));
  else
    print_line(to_text(report));
  return report.verdict == Verdict::Bug ? 1 : 0;
}

}  // namespace

Command verify_command() {
  const auto arguments = std::make_shared<VerifyArguments>();
  return {
      "verify",
      "Compare a layout with one rank: samples, losses, gradients, updates, waits",
      {{"run.toml", "Configuration file; without one, settings on the command line suffice",
        &arguments->config},
       {"--steps", "Steps to compare; by default train.steps, at least 3 and at most 5",
        &arguments->options.steps},
       {"--against", "Layout to compare with, such as dp=4 or shard=4,zero=1; by default one rank",
        &arguments->options.against}},
      [arguments](Context& context) { return run_verify(*arguments, context); },
      Accepts::Overrides};
}

}  // namespace sextant::cli
