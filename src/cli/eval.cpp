#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "data/open_data.h"
#include "infer/evaluate.h"
#include "infer/loaded_model.h"

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

int run_eval(const EvalArguments& arguments, Context& context) {
  SXT_CHECK(arguments.batch > 0, Usage, "--batch ", arguments.batch, ", must be at least 1");
  check_one_rank_settings(context, "eval");
  std::vector<std::string> overrides = context.overrides;
  if (!arguments.tokens.empty()) {
    overrides.push_back("data.kind=tokens");
    overrides.push_back("data.path=" + arguments.tokens);
    overrides.push_back("data.eval_path=" + arguments.tokens);
    overrides.push_back("data.blend=");
    overrides.push_back("data.tokenizer=");  // the token file's own
  }
  LoadedModel loaded(context.storage, arguments.checkpoint, overrides);
  SXT_CHECK(loaded.config().data.kind != DataKind::Synthetic || arguments.samples > 0, Usage,
            "the data of ", arguments.checkpoint,
            " is synthetic and has no end; name a token file, or how many --samples to draw");
  const Loader data = open_data(loaded.config(), context.storage, context.log);
  const TokenizerFiles& own = loaded.tokenizer();
  SXT_CHECK(
      own.empty() || data.tokenizer_files().empty() || own.json() == data.tokenizer_files().json(),
      Data, arguments.checkpoint, " was trained with its ", kTokenizerJson,
      ", the data is of another tokenizer");
  SXT_CHECK(data.samples(Split::Eval) > 0, Data, "the data of ", arguments.checkpoint,
            " has no held-out part; set data.eval_fraction or name a token file");
  const Evaluation result = evaluate_all(loaded, data, arguments, context);
  SXT_CHECK(result.tokens > 0, Data, "no token of the data counts towards the loss");
  if (context.stop.load()) {
    context.log.warning(
        fmt::format("interrupted after {} tokens: no result is given", result.tokens));
    return 130;
  }
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
