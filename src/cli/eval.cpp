#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/hf.h"
#include "checkpoint/load.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "config/load.h"
#include "data/open_data.h"
#include "infer/evaluate.h"
#include "infer/loaded_model.h"
#include "train/same_tokenizer.h"

namespace sextant::cli {
namespace {

struct EvalArguments {
  std::string checkpoint, tokens;
  int64_t batch = 8, samples = 0;
};

// Source by source; --samples bounds each of them.
Evaluation evaluate_all(LoadedModel& loaded, const Loader& data, const EvalArguments& arguments,
                        Context& context) {
  std::vector<EvalSource> sources = data.eval_sources();
  if (sources.empty()) sources = {{"", 0, data.samples(Split::Eval)}};
  Evaluator all(loaded.model());
  HostBatch host;
  std::vector<Evaluation::Source> results;
  for (const EvalSource& source : sources) {
    const int64_t samples =
        arguments.samples > 0 ? std::min(arguments.samples, source.samples) : source.samples;
    Evaluator own(loaded.model());
    for (int64_t first = 0; first < samples && !context.stop.load();) {
      const int64_t count = std::min(arguments.batch, samples - first);
      data.fill(host, Split::Eval, source.first + first, count);
      own.add(host);
      first += count;
      context.log.progress(
          fmt::format("{}/{} samples  loss {:.4f}", first, samples, own.result().loss));
    }
    all.add(own);
    results.push_back({source.name, own.result().loss, own.result().tokens});
  }
  Evaluation result = all.result();
  if (results.size() > 1) result.sources = std::move(results);
  return result;
}

void print_result(const Evaluation& result, const Context& context) {
  if (!context.json) {
    for (const Evaluation::Source& source : result.sources)
      print_line(fmt::format("loss {:.6f}  over {} tokens of {}", source.loss, source.tokens,
                             source.name));
    print_line(fmt::format("loss {:.6f}  perplexity {:.4f}  over {} tokens", result.loss,
                           result.perplexity(), result.tokens));
    return;
  }
  nlohmann::ordered_json json = {
      {"loss", result.loss}, {"perplexity", result.perplexity()}, {"tokens", result.tokens}};
  for (const Evaluation::Source& source : result.sources)
    json["sources"].push_back(
        {{"name", source.name}, {"loss", source.loss}, {"tokens", source.tokens}});
  print_json(json);
}

// A named token file takes the place of the run's data.
void check_settings(const EvalArguments& arguments, const Context& context) {
  std::vector<std::string_view> used = {"model.", "precision.compute", "run.device", "run.threads",
                                        "run.memory_limit"};
  const bool is_named = !arguments.tokens.empty();
  for (const std::string_view key :
       is_named
           ? std::array{std::string_view("data.format"), std::string_view("data.document_mask")}
           : std::array{std::string_view("data."), std::string_view("train.seed")})
    used.push_back(key);
  check_one_rank_settings(context, is_named ? "eval of a token file" : "eval", used);
}

// The tokenizer.json that a run on text named may be gone; its checkpoint keeps it.
void add_own_tokenizer(std::vector<std::string>& overrides, const std::string& checkpoint,
                       Storage& storage) {
  const std::string path = resolve_checkpoint(storage, checkpoint);
  const Manifest manifest = read_manifest(storage, path);
  const std::string named = parse_config(manifest.state.config, path, {}).config.data.tokenizer;
  if (!manifest.tokenizer.empty() && !named.empty() && named != "bytes" && !storage.exists(named))
    overrides.insert(overrides.begin(), "data.tokenizer=" + join_path(path, kTokenizerJson));
}

int run_eval(const EvalArguments& arguments, Context& context) {
  SXT_CHECK(arguments.batch > 0, Usage, "--batch ", arguments.batch, ", must be at least 1");
  check_settings(arguments, context);
  std::vector<std::string> overrides = context.overrides;
  if (!arguments.tokens.empty()) {
    overrides.push_back("data.kind=tokens");
    overrides.push_back("data.path=" + arguments.tokens);
    overrides.push_back("data.eval_path=" + arguments.tokens);
    overrides.push_back("data.blend=");
    overrides.push_back("data.tokenizer=");  // the token file's own
  }
  const bool is_hf = is_hf_directory(context.storage, arguments.checkpoint);
  SXT_CHECK(
      !is_hf || !arguments.tokens.empty() || !context.overrides.empty() || arguments.samples > 0,
      Usage, arguments.checkpoint, " is a Hugging Face directory, without data: name a token ",
      "file, or how many --samples of random tokens to draw");
  if (!is_hf) add_own_tokenizer(overrides, arguments.checkpoint, context.storage);
  LoadedModel loaded(context.storage, arguments.checkpoint, overrides);
  SXT_CHECK(loaded.config().data.kind != DataKind::Synthetic || arguments.samples > 0, Usage,
            "the data of ", arguments.checkpoint,
            " is synthetic and has no end; name a token file, or how many --samples to draw");
  const Loader data =
      open_data(loaded.config(), context.storage, context.log, [&](const Loader& opened) {
        check_same_tokenizer(tokenizer_digest(context.storage, loaded.path()),
                             tokenizer_digest(opened), arguments.checkpoint);
      });
  SXT_CHECK(data.samples(Split::Eval) > 0, Data, "the data of ", arguments.checkpoint,
            " has no held-out part; set data.eval_fraction or name a token file");
  const Evaluation result = evaluate_all(loaded, data, arguments, context);
  if (context.stop.load()) {
    context.log.warning(
        fmt::format("interrupted after {} tokens: no result is given", result.tokens));
    return 130;
  }
  SXT_CHECK(result.tokens > 0, Data, "no token of the data counts towards the loss");
  context.log.end_progress();
  print_result(result, context);
  return 0;
}

}  // namespace

Command eval_command() {
  const auto arguments = std::make_shared<EvalArguments>();
  return {"eval",
          "Loss and perplexity of a checkpoint on held-out data or a token file",
          {{"checkpoint", "Checkpoint, run.out, or a Hugging Face directory",
            &arguments->checkpoint, Option::Need::Required},
           {"tokens", "Token file; without one, the held-out split of the run's own data",
            &arguments->tokens},
           {"--batch", "Batch size in sequences", &arguments->batch},
           {"--samples", "Largest number of sequences (0: all)", &arguments->samples}},
          [arguments](Context& context) { return run_eval(*arguments, context); },
          Accepts::Overrides,
          Stops::WhenReady,
          {},
          "stopping after this batch; Ctrl-C again ends at once"};
}

}  // namespace sextant::cli
