#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "checkpoint/hf.h"
#include "cli/command.h"
#include "cli/print.h"
#include "infer/round_trip.h"

namespace sextant::cli {
namespace {

struct Arguments {
  std::string from, out, dtype = "f32", tokenizer;
  bool verify = false;
};

void report(const Context& context, const std::string& what, int64_t tensors, int64_t bytes,
            std::optional<double> difference) {
  if (context.json) {
    nlohmann::ordered_json json = {{"tensors", tensors}, {"bytes", bytes}};
    json["max_logit_diff"] = difference ? nlohmann::ordered_json(*difference) : nullptr;
    print_json(json);
    return;
  }
  print_line(fmt::format(
      "{}: {} tensors, {}{}", what, tensors, format_bytes(bytes),
      difference ? fmt::format(", largest logit difference after a round trip {:.3g}", *difference)
                 : ""));
}

DType parse_dtype(const std::string& name) {
  return name == "bf16" ? DType::BF16 : name == "f16" ? DType::F16 : DType::F32;
}

// In f32 nothing is rounded, so the logits must come back as they were.
void check_round_trip(DType dtype, std::optional<double> difference) {
  SXT_CHECK(!difference || *difference == 0 || (dtype != DType::F32 && std::isfinite(*difference)),
            Failure, "the logits after a round trip in ", name_of(dtype), " differ by ",
            *difference, "; they must be equal in f32 and finite in every type");
}

int run_import(const Arguments& arguments, Context& context) {
  const ImportReport done = import_hf(context.storage, arguments.from, arguments.out, context.log);
  std::optional<double> difference;
  if (arguments.verify)
    difference =
        round_trip_difference(context.storage, done.path, arguments.out + ".verify", DType::F32);
  report(context, arguments.out, done.tensors, done.bytes, difference);
  check_round_trip(DType::F32, difference);
  return 0;
}

int run_export(const Arguments& arguments, Context& context) {
  const DType dtype = parse_dtype(arguments.dtype);
  ExportOptions options;
  options.dtype = dtype;
  options.tokenizer = arguments.tokenizer;
  const ExportReport done = export_hf(context.storage, arguments.from, arguments.out, options);
  std::optional<double> difference;
  if (arguments.verify)
    difference =
        round_trip_difference(context.storage, arguments.from, arguments.out + ".verify", dtype);
  report(context, arguments.out, done.tensors, done.bytes, difference);
  check_round_trip(dtype, difference);
  return 0;
}

}  // namespace

Command import_command() {
  const auto arguments = std::make_shared<Arguments>();
  return {"import",
          "Make a checkpoint from a Hugging Face directory",
          {{"directory", "Directory with config.json and safetensors", &arguments->from,
            Option::Need::Required},
           {"--out", "Directory for the checkpoint", &arguments->out, Option::Need::Required},
           {"--verify", "Export it again and compare logits", &arguments->verify}},
          [arguments](Context& context) { return run_import(*arguments, context); }};
}

Command export_command() {
  const auto arguments = std::make_shared<Arguments>();
  return {"export",
          "Make a Hugging Face directory from a checkpoint",
          {{"checkpoint", "Checkpoint, or the directory of a run's checkpoints", &arguments->from,
            Option::Need::Required},
           {"--out", "Directory to make", &arguments->out, Option::Need::Required},
           {"--dtype",
            "Type of the weights",
            &arguments->dtype,
            Option::Need::Optional,
            {"f32", "bf16", "f16"}},
           {"--tokenizer", "A tokenizer.json to copy along", &arguments->tokenizer},
           {"--verify", "Import it again and compare logits", &arguments->verify}},
          [arguments](Context& context) { return run_export(*arguments, context); }};
}

}  // namespace sextant::cli
