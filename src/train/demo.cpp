#include "train/demo.h"

#include <cmath>

#include "base/error.h"
#include "checkpoint/directory.h"
#include "checkpoint/load.h"
#include "config/load.h"
#include "data/tokenizer.h"
#include "infer/generate.h"
#include "train/loaded_model.h"

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
micro = 8

[optim]
lr = 4e-3
warmup = 20

[train]
steps = 300
log_every = 50
)";
constexpr int64_t kHalf = 150;
constexpr const char* kPrompt = "Once ";

ResolvedConfig demo_config(const std::string& out) {
  const std::vector<std::string> overrides = {"run.out=" + out,
                                              "checkpoint.every=" + std::to_string(kHalf)};
  return parse_config(kDemoConfig, "demo", overrides);
}

std::string write_some(Storage& storage, const std::string& checkpoint) {
  LoadedModel loaded(storage, checkpoint, {});
  const Tokenizer tokenizer = Tokenizer::open(storage, loaded.config().data.tokenizer);
  GenerateOptions options;
  options.tokens = 160;
  options.sampling.temperature = 0.7;
  const std::vector<int32_t> made =
      generate(loaded.stream(), loaded.model(), tokenizer.encode(kPrompt), options,
               [](int32_t) { return true; });
  return kPrompt + tokenizer.decode(made);
}

// How a run ended: its last loss, and the digests of every weight and optimizer tensor.
struct End {
  double loss = 0;
  std::vector<ShardFile> files;
};

End end_of(Storage& storage, const RunResult& run) {
  return {*run.loss_last,
          read_manifest(storage, resolve_checkpoint(storage, run.checkpoint)).files};
}

std::string verdict(const End& whole, const End& resumed) {
  if (whole.loss == resumed.loss && whole.files == resumed.files) return "equal";
  return std::abs(whole.loss - resumed.loss) <= 1e-5 * std::abs(whole.loss) ? "rounding" : "bug";
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
  const End unbroken = end_of(storage, whole);

  context.log.info("\nresuming from step " + std::to_string(kHalf) + ", as after a crash");
  const std::string directory = checkpoint_directory(resolved.config);
  discard_checkpoint(storage, directory, to_string(CheckpointName{resolved.config.train.steps}));
  replace_file(storage, join_path(directory, kLatestName), to_string(CheckpointName{kHalf}) + "\n");
  RunOptions resume = options;
  resume.resume = true;
  const RunResult second = run_training(resolved, resume, context);
  if (second.stopped) return result;
  result.resume = verdict(unbroken, end_of(storage, second));
  result.text = write_some(storage, directory);
  return result;
}

}  // namespace sextant
