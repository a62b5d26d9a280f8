#include "cli/other_options.h"

#include <algorithm>
#include <cctype>

namespace sextant::cli {
namespace {

// Of llama.cpp, llm.c, nanoGPT, torchtitan, transformers, torchrun.
struct OtherName {
  std::string_view theirs, ours;
};
constexpr OtherName kOptions[] = {
    {"n-predict", "tokens"},
    {"predict", "tokens"},
    {"max-new-tokens", "tokens"},
    {"max-tokens", "tokens"},
    {"num-tokens", "tokens"},
    {"length", "tokens"},
    {"temp", "temperature"},
    {"start", "prompt"},
    {"text", "prompt"},
    {"reverse-prompt", "stop"},
    {"batch-size", "batch"},
    {"global-batch-size", "batch"},
    {"limit", "samples"},
    {"iters", "samples"},
    {"ranks", "stages"},
    {"pp", "stages"},
    {"num-stages", "stages"},
    {"micro-batches", "micros"},
    {"microbatches", "micros"},
    {"num-microbatches", "micros"},
    {"gpus", "cluster"},
    {"gpus", "ranks"},
    {"gpu", "cluster"},
    {"hardware", "cluster"},
    {"seq-len", "seq"},
    {"seq-length", "seq"},
    {"context", "seq"},
    {"dtype", "precision"},
    {"outtype", "dtype"},
    {"precision", "dtype"},
    {"vocab-size", "vocab"},
    {"special-tokens", "special"},
    {"workers", "threads"},
    {"num-proc", "threads"},
    {"num-workers", "threads"},
    {"output", "out"},
    {"output-dir", "out"},
    {"output-path", "out"},
    {"outfile", "out"},
    {"out-dir", "out"},
    {"save-dir", "out"},
    {"init-from", "from"},
    {"load", "from"},
    {"load-checkpoint", "from"},
    {"checkpoint", "from"},
    {"ckpt", "from"},
    {"pretrained", "from"},
    {"model-name-or-path", "from"},
    {"finetune", "from"},
    {"continue", "resume"},
    {"restart", "resume"},
    {"resume-from", "resume"},
    {"resume-from-checkpoint", "resume"},
    {"world-size", "ranks"},
    {"nproc", "ranks"},
    {"nproc-per-node", "ranks"},
    {"num-gpus", "ranks"},
    {"np", "ranks"},
    {"debug", "verbose"},
    {"silent", "quiet"},
};
constexpr OtherName kArguments[] = {
    {"config", "run.toml"},
    {"config-file", "run.toml"},
    {"c", "run.toml"},
    {"model", "checkpoint"},
    {"model-path", "checkpoint"},
    {"m", "checkpoint"},
    {"checkpoint", "checkpoint"},
    {"ckpt", "checkpoint"},
    {"data", "tokens"},
    {"dataset", "tokens"},
    {"input", "input"},
    {"i", "input"},
    {"data", "input"},
    {"input", "directory"},
    {"model", "directory"},
    {"model-dir", "directory"},
    {"file", "file"},
    {"path", "path"},
    {"checkpoint", "path"},
};

std::string plain(std::string_view word) {
  std::string out;
  for (const char ch : word.substr(word.rfind('.') + 1))
    out += ch == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
  return out;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::string option_meant_by(std::string_view word, const std::vector<std::string>& own) {
  const std::string wanted = plain(word);
  if (has(own, wanted)) return wanted;
  for (const OtherName& other : kOptions)
    if (other.theirs == wanted && has(own, other.ours)) return std::string(other.ours);
  return "";
}

std::string argument_meant_by(std::string_view word, const std::vector<std::string>& positionals) {
  const std::string wanted = plain(word);
  for (const OtherName& other : kArguments)
    if (other.theirs == wanted && has(positionals, other.ours)) return std::string(other.ours);
  return "";
}

}  // namespace sextant::cli
