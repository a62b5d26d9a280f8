#include "cli/train_summary.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/parse.h"
#include "checkpoint/directory.h"
#include "formats/tokenizer_files.h"

namespace sextant::cli {
namespace {

std::string trained_line(const RunResult& result) {
  constexpr double kMinute = 60;
  const std::string time = result.seconds < kMinute ? fmt::format("{:.1f} s", result.seconds)
                                                    : format_duration(result.seconds);
  std::string line = fmt::format("trained    {} step{} in {}", result.steps_made,
                                 result.steps_made == 1 ? "" : "s", time);
  if (result.loss_first)
    line += fmt::format(": loss {:.4f} -> {:.4f}", *result.loss_first, *result.loss_last);
  if (result.eval_loss) line += fmt::format(", eval {:.4f}", *result.eval_loss);
  return line + fmt::format("; {} tok/s on average\n", format_count(result.tokens_per_s));
}

// By axis and operation, with the exposed time of the first rank; "" for one rank.
std::string sends_text(const StepSends& sends) {
  std::string text;
  const auto add = [&](size_t axis, Operation operation) {
    const Traffic first = sends.first.axes()[axis].operations[static_cast<size_t>(operation)];
    const Traffic all = sends.all.axes()[axis].operations[static_cast<size_t>(operation)];
    const bool is_receive = operation == Operation::Receive && all.calls > 0;
    if (all.bytes == 0 && !is_receive) return;
    if (text.empty())
      text = fmt::format("{:<11}{:<28}{:>6} {:>9} {:>10} {:>10} {:>11}\n", "sent",
                         "in the last step", "calls", "elements", "rank 0", "all ranks", "exposed");
    const double exposed =
        sends.exposed ? (*sends.exposed)[axis][static_cast<size_t>(operation)] : 0;
    text += fmt::format("{:<11}{:<12}{:<16}{:>6} {:>9} {:>10} {:>10} {:>8.1f} ms\n", "",
                        sends.all.axes()[axis].axis(), name_of(operation), first.calls,
                        is_receive ? "" : format_count(static_cast<double>(first.elements)),
                        is_receive ? "" : format_bytes(first.bytes),
                        is_receive ? "" : format_bytes(all.bytes), 1e3 * exposed);
  };
  for (size_t axis = 0; axis < sends.all.axes().size(); ++axis)
    for (int i = 0; i < kOperations; ++i) add(axis, static_cast<Operation>(i));
  return text;
}

// The same command, going on from the checkpoint.
std::string resume_command(const std::vector<std::string>& words) {
  std::string line = "sextant";
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--from") {
      ++i;
      continue;
    }
    if (words[i].starts_with("--from=") || words[i].starts_with("--resume") ||
        words[i].starts_with("--run.peak_flops="))  // the one that starts mpirun adds this
      continue;
    line += " " + shell_quoted(words[i]);
  }
  return line + " --resume";
}

std::string next_command(Storage& storage, const Config& config, const std::string& checkpoint) {
  const std::string from =
      shell_quoted(config.checkpoint.dir.empty() ? config.run.out : config.checkpoint.dir);
  if (config.data.kind == DataKind::Synthetic) return "sextant checkpoint inspect " + from;
  const bool can_write = config.data.kind != DataKind::Tokens || config.data.tokenizer == "bytes" ||
                         storage.exists(join_path(checkpoint, kTokenizerJson));
  return can_write ? "sextant generate " + from + " --prompt 'Once '" : "sextant eval " + from;
}

}  // namespace

std::string summary_text(Storage& storage, const RunResult& result, const Config& config,
                         const std::vector<std::string>& words) {
  const std::string checkpoint = resolve_checkpoint(storage, result.checkpoint);
  std::string out = result.steps_made > 0 ? trained_line(result) + sends_text(result.sends) : "";
  if (result.operations) out += to_text(*result.operations);
  out += "saved      " + checkpoint + "\n";
  out += "next       " +
         (result.stopped ? resume_command(words) : next_command(storage, config, checkpoint));
  return out;
}

}  // namespace sextant::cli
