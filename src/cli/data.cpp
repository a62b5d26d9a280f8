#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "cli/command.h"
#include "cli/out_file.h"
#include "cli/print.h"
#include "data/inspect.h"
#include "data/token_set.h"
#include "data/tokenize.h"
#include "data/train_tokenizer.h"

namespace sextant::cli {
namespace {

const std::vector<std::string> kFormats = {"auto", "sextant", "llm.c", "nanogpt", "megatron"};

// ", 42 %, 0:13 left" at the pace so far; without bytes nothing is known.
std::string remaining(int64_t done, int64_t all, double seconds) {
  if (done <= 0 || all <= 0) return "";
  const double share = static_cast<double>(done) / static_cast<double>(all);
  return fmt::format(", {:.0f} %, {} left", 100 * share,
                     format_duration(seconds * (1 - share) / share));
}

struct TokenizeArguments {
  std::vector<std::string> inputs;
  std::string out, tokenizer = "bytes", split = "file";
  int64_t threads = 0;
  bool specials = false;
};

int run_tokenize(const TokenizeArguments& arguments, Context& context) {
  check_out_file(context.storage, "--out", arguments.out, "text.tokens");
  const Tokenizer tokenizer = Tokenizer::open(context.storage, arguments.tokenizer);
  TokenizeOptions options;
  for (const std::string& input : arguments.inputs)
    for (const std::string& file : matching_files(context.storage, input, Content::Text))
      options.inputs.push_back(file);
  for (const std::string& file : options.inputs)
    SXT_CHECK(std::filesystem::path(file).lexically_normal() !=
                  std::filesystem::path(arguments.out).lexically_normal(),
              Usage, "--out ", arguments.out, " is one of the inputs, and would replace it");
  options.split = arguments.split == "lines" ? TextSplit::Lines : TextSplit::File;
  options.specials = arguments.specials ? Specials::With : Specials::Without;
  options.threads = static_cast<int>(arguments.threads);
  const double start = context.clock.now();
  options.on_progress = [&](const TokenizeProgress& progress) {
    context.log.progress(fmt::format(
        "{} documents, {} tokens, {}{}: {}", progress.documents,
        format_count(static_cast<double>(progress.tokens)), format_bytes(progress.bytes),
        remaining(progress.taken, progress.stored, context.clock.now() - start), progress.file));
  };
  const TokenizeSummary summary =
      tokenize_to_file(context.storage, tokenizer, options, arguments.out);
  const double seconds = context.clock.now() - start;
  context.log.end_progress();
  if (context.json)
    print_json({{"documents", summary.documents},
                {"tokens", summary.tokens},
                {"vocab", summary.vocab},
                {"bytes", summary.bytes}});
  else
    print_line(fmt::format("{}: {}, {} tokens of {} from {} ({:.1f} MB/s)", arguments.out,
                           counted(summary.documents, "document", "documents"), summary.tokens,
                           summary.vocab, format_bytes(summary.bytes),
                           static_cast<double>(summary.bytes) / 1e6 / std::max(seconds, 1e-9)));
  return 0;
}

struct TrainTokenizerArguments {
  std::vector<std::string> inputs, specials;
  std::string out;
  int64_t vocab = 0, threads = 0;
};

int run_train_tokenizer(const TrainTokenizerArguments& arguments, Context& context) {
  check_out_file(context.storage, "--out", arguments.out, "tokenizer.json");
  TrainTokenizerOptions options;
  for (const std::string& input : arguments.inputs)
    for (const std::string& file : matching_files(context.storage, input, Content::Text))
      options.inputs.push_back(file);
  options.vocab = arguments.vocab;
  options.threads = static_cast<int>(arguments.threads);
  for (const std::string& special : arguments.specials) options.specials.push_back(special);
  const double start = context.clock.now();
  double counted = start;  // when the last text was read
  options.on_progress = [&](const TrainTokenizerProgress& progress) {
    const double now = context.clock.now();
    if (progress.merges == 0) {
      counted = now;
      context.log.progress(fmt::format("{} documents, {}{}", progress.documents,
                                       format_bytes(progress.bytes),
                                       remaining(progress.taken, progress.stored, now - start)));
    } else {
      context.log.progress(
          fmt::format("{} of {} merges{}", progress.merges, progress.merges_most,
                      remaining(progress.merges, progress.merges_most, now - counted)));
    }
  };
  const TrainedTokenizer trained = train_tokenizer(context.storage, options);
  write_out_file(context.storage, arguments.out, trained.json);
  if (trained.vocab < arguments.vocab)
    context.log.warning(
        fmt::format("the text gives a vocabulary of {}, not {}: no other pair of "
                    "tokens occurs twice",
                    trained.vocab, arguments.vocab));
  context.log.end_progress();
  if (context.json)
    print_json({{"vocab", trained.vocab}, {"merges", trained.merges}, {"words", trained.words}});
  else
    print_line(fmt::format("{}: vocabulary {}, {} merges of {} different words", arguments.out,
                           trained.vocab, trained.merges, trained.words));
  return 0;
}

struct InspectArguments {
  std::string file, format = "auto", tokenizer;
};

TokenFormat parse_format(const std::string& name) {
  for (size_t i = 0; i < kFormats.size(); ++i)
    if (kFormats[i] == name) return static_cast<TokenFormat>(i);
  SXT_FAIL(Usage, "--format ", name, ", must be one of ", join(kFormats, ", "));
}
static_assert(static_cast<int>(TokenFormat::Auto) == 0 &&
                  static_cast<int>(TokenFormat::Megatron) == 4,
              "kFormats follows TokenFormat");

int run_inspect(const InspectArguments& arguments, Context& context) {
  std::optional<Tokenizer> tokenizer;
  if (!arguments.tokenizer.empty())
    tokenizer.emplace(Tokenizer::open(context.storage, arguments.tokenizer));
  const TokenFileReport report =
      inspect_tokens(context.storage, arguments.file, parse_format(arguments.format),
                     tokenizer ? &*tokenizer : nullptr);
  const std::string& format = kFormats[static_cast<size_t>(report.format)];
  if (context.json) {
    print_json({{"format", format},
                {"documents", report.documents},
                {"tokens", report.tokens},
                {"vocab", report.vocab},
                {"max_id", report.max_id},
                {"width", report.width},
                {"checksums", report.has_checksums},
                {"loss_tokens", report.loss_tokens},
                {"tokenizer", report.tokenizer},
                {"first_ids", report.first_ids},
                {"first_text", report.first_text}});
    return 0;
  }
  print_line(fmt::format("{}: {} format, {} tokens in {}, vocabulary {}, highest id {}",
                         arguments.file, format, report.tokens,
                         counted(report.documents, "document", "documents"), report.vocab,
                         report.max_id));
  print_line(fmt::format("{} bytes a token, {}, {}", report.width,
                         report.has_checksums ? "every checksum right" : "no checksums",
                         report.has_loss_mask
                             ? fmt::format("{} tokens count in the loss", report.loss_tokens)
                             : "no loss mask"));
  if (!report.tokenizer.empty()) print_line("tokenizer " + report.tokenizer);
  print_line(fmt::format("first ids: {}", fmt::join(report.first_ids, " ")));
  if (!report.first_text.empty()) print_foreign("first text: " + report.first_text + "\n");
  return 0;
}

Command tokenize_command() {
  const auto arguments = std::make_shared<TokenizeArguments>();
  return {"tokenize",
          "Text, jsonl and their .zst to a token file",
          {{"input",
            "Files, patterns or directories of text, or jsonl with \"text\" or \"prompt\" and "
            "\"completion\"",
            &arguments->inputs, Option::Need::Required},
           {"--out", "Token file to write", &arguments->out, Option::Need::Required},
           {"--tokenizer", "bytes, or a tokenizer.json", &arguments->tokenizer},
           {"--split",
            "What a document is: each text file, or each of its lines",
            &arguments->split,
            Option::Need::Optional,
            {"file", "lines"}},
           {"--specials", "Add the special tokens that the tokenizer puts around a text",
            &arguments->specials},
           {"--threads", "Threads (0: all cores)", &arguments->threads}},
          [arguments](Context& context) { return run_tokenize(*arguments, context); }};
}

Command train_tokenizer_command() {
  const auto arguments = std::make_shared<TrainTokenizerArguments>();
  return {"train-tokenizer",
          "Make a byte-level BPE tokenizer.json from text, jsonl and their .zst",
          {{"input", "Files, patterns or directories", &arguments->inputs, Option::Need::Required},
           {"--vocab", "Size of the vocabulary, with 256 bytes and special tokens",
            &arguments->vocab, Option::Need::Required},
           {"--out", "tokenizer.json to write", &arguments->out, Option::Need::Required},
           {"--special", "Special tokens besides <|endoftext|>", &arguments->specials},
           {"--threads", "Threads (0: all cores)", &arguments->threads}},
          [arguments](Context& context) { return run_train_tokenizer(*arguments, context); }};
}

Command inspect_command() {
  const auto arguments = std::make_shared<InspectArguments>();
  return {"inspect",
          "Show and check a token file",
          {{"file", "Token file: own format, llm.c, Megatron, nanoGPT", &arguments->file,
            Option::Need::Required},
           {"--format", "Only headerless files need it", &arguments->format, Option::Need::Optional,
            kFormats},
           {"--tokenizer", "Show the first tokens as text", &arguments->tokenizer}},
          [arguments](Context& context) { return run_inspect(*arguments, context); }};
}

}  // namespace

Command data_command() {
  Command command{"data", "Make and inspect token files"};
  command.subcommands = {tokenize_command(), train_tokenizer_command(), inspect_command()};
  return command;
}

}  // namespace sextant::cli
