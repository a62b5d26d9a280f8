#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "data/tokenizer.h"
#include "infer/generate.h"
#include "infer/loaded_model.h"

namespace sextant::cli {
namespace {

struct GenerateArguments {
  std::string checkpoint, prompt, tokenizer;
  std::vector<std::string> stops;
  GenerateOptions options;
  int64_t seed = 0;
  bool no_special_tokens = false;
};

// Whole characters of `text` so far: bytes of an unfinished one stay for later.
size_t whole_characters(const std::string& text) {
  for (size_t cut = 0; cut < 4 && cut < text.size(); ++cut) {
    const auto byte = static_cast<unsigned char>(text[text.size() - 1 - cut]);
    if (byte < 0x80) return text.size() - cut;
    if (byte >= 0xC0) {
      const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
      return length <= cut + 1 ? text.size() : text.size() - cut - 1;
    }
  }
  return text.size();
}

// The one that is named, else that of the checkpoint, else that of its configuration.
Tokenizer tokenizer_for(const LoadedModel& loaded, const std::string& named, Storage& storage) {
  if (!named.empty()) return Tokenizer::open(storage, named);
  if (!loaded.tokenizer().empty())
    return Tokenizer::from_files(loaded.tokenizer(), join_path(loaded.path(), kTokenizerJson));
  const DataConfig& data = loaded.config().data;
  const bool is_text = data.kind == DataKind::Text || data.kind == DataKind::Builtin;
  SXT_CHECK(is_text || !data.tokenizer.empty(), Data, loaded.path(), " has no tokenizer",
            data.kind == DataKind::Tokens ? ", as its token files did not say theirs" : ".json",
            "; name it with --tokenizer");
  return Tokenizer::open(storage, data.tokenizer);
}

// Ids of the prompt, with the tokens that the tokenizer's template adds. An empty text begins as a
// document does: with the beginning token, or after the end of another one.
std::vector<int32_t> prompt_tokens(const Tokenizer& tokenizer, const GenerateArguments& arguments) {
  std::vector<int32_t> ids = tokenizer.encode(
      arguments.prompt, arguments.no_special_tokens ? Specials::Without : Specials::With);
  if (!ids.empty()) return ids;
  const std::optional<int32_t> first = tokenizer.bos() ? tokenizer.bos() : tokenizer.eod();
  SXT_CHECK(first, Usage, "this tokenizer has no token to begin with; give a --prompt");
  return {*first};
}

// Where the first of the stop strings begins in `text`, or npos.
size_t find_stop(const std::string& text, const std::vector<std::string>& stops) {
  size_t first = std::string::npos;
  for (const std::string& stop : stops) first = std::min(first, text.find(stop));
  return first;
}

// How much of the end of `text` may be the beginning of a stop string.
size_t held_back(const std::string& text, const std::vector<std::string>& stops) {
  size_t most = 0;
  for (const std::string& stop : stops)
    for (size_t size = std::min(stop.size(), text.size()); size > most; --size)
      if (text.ends_with(std::string_view(stop).substr(0, size))) most = size;
  return most;
}

int run_generate(GenerateArguments& arguments, Context& context) {
  arguments.options.sampling.seed = static_cast<uint64_t>(arguments.seed);
  constexpr std::string_view kUsed[] = {"model.", "precision.compute", "run.device", "run.threads",
                                        "run.memory_limit"};
  check_one_rank_settings(context, "generate", kUsed);
  for (const std::string& stop : arguments.stops)
    SXT_CHECK(!stop.empty(), Usage, "--stop takes a text that is not empty");
  const Sampler checked(arguments.options.sampling);  // refuses bad settings before the work
  LoadedModel loaded(context.storage, arguments.checkpoint, context.overrides);
  const Tokenizer tokenizer = tokenizer_for(loaded, arguments.tokenizer, context.storage);
  SXT_CHECK(tokenizer.vocab() <= loaded.config().model.vocab, Data, "tokenizer ", tokenizer.name(),
            " has ", tokenizer.vocab(), " tokens, the model only ", loaded.config().model.vocab,
            "; name the right one with --tokenizer");
  const std::vector<int32_t> prompt = prompt_tokens(tokenizer, arguments);
  arguments.options.stop_tokens = tokenizer.eos();
  const int64_t seq = loaded.config().model.seq;
  if (static_cast<int64_t>(prompt.size()) > seq)
    context.log.warning(concat("the prompt has ", prompt.size(), " tokens, the model reads ", seq,
                               " at most: only the end of the prompt is used"));
  context.log.info(
      concat("KV cache ", format_bytes(loaded.cache_bytes()), " for ", seq, " tokens"));
  if (!context.json) print_foreign(arguments.prompt);
  std::vector<int32_t> made;
  std::string text;
  size_t shown = 0;
  const double start = context.clock.now();
  generate(loaded.model(), prompt, arguments.options, [&](int32_t token) {
    text += tokenizer.bytes_of(token);
    made.push_back(token);
    const size_t stop = find_stop(text, arguments.stops);
    if (stop != std::string::npos) text.resize(stop);
    if (!context.json) {
      const size_t whole = std::min(
          whole_characters(text),
          stop != std::string::npos ? stop : text.size() - held_back(text, arguments.stops));
      if (whole > shown) print_foreign(std::string_view(text).substr(shown, whole - shown));
      shown = std::max(shown, whole);
    }
    return stop == std::string::npos && !context.stop.load();
  });
  const double seconds = context.clock.now() - start;
  const double speed = static_cast<double>(made.size()) / std::max(seconds, 1e-9);
  if (context.json)
    print_json({{"text", text},
                {"prompt", arguments.prompt},
                {"prompt_tokens", prompt},
                {"tokens", made},
                {"tokens_per_s", speed},
                {"cache_bytes", loaded.cache_bytes()}});
  else
    print_foreign(text.substr(shown) + "\n");
  context.log.info(concat(made.size(), " tokens, ", format_count(speed), " tokens/s"));
  return context.stop.load() ? 130 : 0;
}

}  // namespace

Command generate_command() {
  const auto arguments = std::make_shared<GenerateArguments>();
  Sampling& sampling = arguments->options.sampling;
  return {
      "generate",
      "Continue a text with a trained model",
      {{"checkpoint", "Checkpoint, run.out, or a Hugging Face directory", &arguments->checkpoint,
        Option::Need::Required},
       {"-p,--prompt", "Text to continue", &arguments->prompt},
       {"--stop", "Ends the text before this string; may be repeated", &arguments->stops},
       {"-n,--tokens", "Number of tokens to generate", &arguments->options.tokens},
       {"--temperature", "Sampling temperature; 0 is greedy", &sampling.temperature},
       {"--top-k", "Top-k sampling: draw from the k most likely tokens (0: all)", &sampling.top_k},
       {"--top-p",
        "Top-p (nucleus) sampling: draw from the fewest tokens whose probabilities reach p",
        &sampling.top_p},
       {"--seed",
        "Random seed",
        &arguments->seed,
        Option::Need::Optional,
        {},
        std::numeric_limits<int64_t>::max()},
       {"--tokenizer", "bytes or a tokenizer.json; without it, the run's own",
        &arguments->tokenizer},
       {"--no-special-tokens",
        "Leave out the tokens that the tokenizer adds around a text, such as <s>",
        &arguments->no_special_tokens}},
      [arguments](Context& context) { return run_generate(*arguments, context); },
      Accepts::Overrides,
      Stops::WhenReady,
      {},
      "stopping after this token; Ctrl-C again ends at once"};
}

}  // namespace sextant::cli
