#include "cli/run_demo.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/parse.h"
#include "checkpoint/directory.h"
#include "config/load.h"
#include "data/tokenizer.h"
#include "infer/generate.h"
#include "infer/loaded_model.h"
#include "train/verify.h"

namespace sextant {
namespace {

constexpr const char* kDemoConfig = R"(
[model]
family = "llama"
layers = 4
hidden = 128
heads = 4
ffn = 384
vocab = 256
seq = 128

[batch]
global = 8

[parallel]
dp = 2
tp = 2
pp = 2

[optim]
lr = 4e-3
warmup = 20

[train]
steps = 300
log_every = 50
)";
constexpr int64_t kHalf = 150;
constexpr const char* kPrompt = "Once ";

ResolvedConfig demo_config(const std::string& out, std::vector<std::string> overrides = {}) {
  overrides.push_back("run.out=" + out);
  overrides.push_back("checkpoint.every=" + std::to_string(kHalf));
  return parse_config(kDemoConfig, "demo", overrides);
}

std::string write_some(Storage& storage, const std::string& checkpoint) {
  LoadedModel loaded(storage, checkpoint, {});
  const Tokenizer tokenizer = Tokenizer::open(storage, loaded.config().data.tokenizer);
  GenerateOptions options;
  options.tokens = 160;
  options.sampling.temperature = 0.7;
  const std::vector<int32_t> made =
      generate(loaded.model(), tokenizer.encode(kPrompt), options, [](int32_t) { return true; });
  return kPrompt + tokenizer.decode(made);
}

// Losses of the steps after kHalf, as a run wrote them.
std::vector<double> late_losses(Storage& storage, const std::string& out) {
  std::vector<double> losses;
  for (const std::string& line : split(read_text(storage, join_path(out, "metrics.jsonl")), '\n')) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json["step"] > kHalf) losses.push_back(json["loss"]);
  }
  return losses;
}

// Another layout sums in another order: the first step after the resume may differ by rounding,
// which training then amplifies.
std::string compare(const std::vector<double>& whole, const std::vector<double>& resumed) {
  if (whole == resumed) return "equal";
  if (whole.empty() || whole.size() != resumed.size()) return "bug";
  return std::abs(whole.front() - resumed.front()) <= 1e-5 * std::abs(whole.front()) ? "rounding"
                                                                                     : "bug";
}

}  // namespace

DemoResult run_demo(const std::string& out, const RunOptions& options, const RunContext& context) {
  Storage& storage = context.storage;
  const ResolvedConfig resolved = demo_config(out);
  const RunResult whole = run_training(resolved, options, context);
  DemoResult result;
  if (whole.stopped) return result;
  result.loss_first = *whole.loss_first;
  result.loss_last = *whole.loss_last;
  const std::vector<double> unbroken = late_losses(storage, out);

  context.log.info("\nverifying this layout against one rank");
  const VerifyReport report = verify_layout(resolved.config, {3, ""}, context);
  context.log.info(summary(report));
  result.verify = name_of(report.verdict);
  if (context.stop.load()) return result;

  context.log.info("\nresuming from step " + std::to_string(kHalf) +
                   ", as after a crash, on half of the ranks in another layout");
  const std::string directory = checkpoint_directory(resolved.config);
  discard_checkpoint(storage, directory, to_string(CheckpointName{resolved.config.train.steps}));
  replace_file(storage, join_path(directory, kLatestName), to_string(CheckpointName{kHalf}) + "\n");
  RunOptions resume = options;
  resume.resume = true;
  const RunResult second =
      run_training(demo_config(out, {"parallel.dp=1", "parallel.tp=1", "parallel.pp=1",
                                     "parallel.shard=4", "parallel.zero=2"}),
                   resume, context);
  if (second.stopped) return result;
  result.resume = compare(unbroken, late_losses(storage, out));
  result.text = write_some(storage, directory);
  return result;
}

}  // namespace sextant
