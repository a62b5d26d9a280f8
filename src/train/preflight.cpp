#include "train/preflight.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/parse.h"
#include "model/head.h"
#include "optim/optimizer.h"
#include "tensor/device.h"
#include "tensor/stream.h"

namespace sextant {
namespace {

std::string_view family_name(Family family) {
  switch (family) {
    case Family::Gpt2:
      return "gpt2";
    case Family::Llama:
      return "llama";
    case Family::Qwen3:
      return "qwen3";
  }
  return "?";
}

std::string model_lines(const Blueprint& blueprint, const Config& config) {
  const ModelConfig& model = blueprint.model;
  const double flops = blueprint.flops_per_token(model.seq);
  const auto tokens = static_cast<double>(config.batch.global * model.seq);
  return fmt::format(
      "model      {}{}: {} layer{}, hidden {}, {}/{} heads of {}, ffn {}, vocab {} (stored {}), "
      "seq "
      "{}\n"
      "parameters {} ({})\n"
      "FLOPs      {} per token = {}; {} per step of {} tokens\n",
      family_name(model.family), model.preset.empty() ? "" : " " + model.preset, model.layers,
      model.layers == 1 ? "" : "s", model.hidden, model.heads, model.kv_heads, model.head_dim,
      model.ffn, model.vocab, blueprint.padded_vocab, model.seq, blueprint.parameters(),
      format_count(static_cast<double>(blueprint.parameters())), format_count(flops),
      flops_formula(), format_count(flops * tokens), config.batch.global * model.seq);
}

std::string memory_lines(const Preflight& preflight) {
  const MemoryEstimate& memory = preflight.memory;
  return fmt::format(
      "memory     weights {}, gradients {}, optimizer {}, activations {}, workspace {}\n"
      "           peak {} of {}\n",
      format_bytes(memory.weights), format_bytes(memory.gradients), format_bytes(memory.optimizer),
      format_bytes(memory.activations), format_bytes(memory.workspace),
      format_bytes(memory.total()), format_bytes(preflight.memory_limit));
}

}  // namespace

int thread_count(const Config& config) {
  return config.run.threads > 0 ? config.run.threads : available_cores();
}

MemoryQuestion memory_question(const Config& config, int threads) {
  MemoryQuestion question;
  question.micro = config.batch.micro;
  question.seq = config.model.seq;
  question.moments = moment_count(config.optim);
  // Besides the kernels' scratch: the sums of loss, evaluation and gradient norm.
  question.kernel_scratch = Stream::scratch_bytes(threads) + 3 * 8;
  question.logits = config.memory.logits;
  question.logits_chunk = Head::kChunk;
  return question;
}

Preflight preflight(const Config& config, double peak_flops) {
  Preflight out;
  out.blueprint = make_blueprint(config.model);
  out.threads = thread_count(config);
  out.memory = predict_memory(out.blueprint, memory_question(config, out.threads));
  out.memory_limit = config.run.memory_limit > 0 ? config.run.memory_limit : physical_memory();
  out.peak_flops = peak_flops;
  SXT_CHECK(out.memory.total() <= out.memory_limit, Memory, "the run needs ",
            format_bytes(out.memory.total()), " and may use ", format_bytes(out.memory_limit),
            "; a smaller batch.micro, model.seq or model, or memory.logits=chunked needs less");
  return out;
}

std::string preflight_text(const Preflight& preflight, const ResolvedConfig& resolved) {
  std::string text = model_lines(preflight.blueprint, resolved.config);
  text += memory_lines(preflight);
  text += fmt::format("ranks      1 on the CPU, {} thread{}", preflight.threads,
                      preflight.threads == 1 ? "" : "s");
  if (preflight.peak_flops > 0)
    text += fmt::format("; MFU is model FLOPs / ({:.0f} GFLOP/s measured peak x seconds)",
                        preflight.peak_flops / 1e9);
  text += "\n";
  for (const std::string& note : resolved.notes) text += note + "\n";
  return text;
}

}  // namespace sextant
