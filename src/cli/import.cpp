#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "checkpoint/directory.h"
#include "checkpoint/hf.h"
#include "checkpoint/load.h"
#include "cli/command.h"
#include "cli/print.h"
#include "config/load.h"
#include "data/data_tokenizer.h"
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

bool is_run_directory(Storage& storage, const std::string& path) {
  return checkpoints_of(storage, path) != path;
}

int run_import(const Arguments& arguments, Context& context) {
  SXT_CHECK(!is_run_directory(context.storage, arguments.out), Usage, "--out ", arguments.out,
            " is the directory of a run, whose checkpoints it would hide; name another one");
  const ImportReport done = import_hf(context.storage, arguments.from, arguments.out, context.log);
  std::optional<double> difference;
  if (arguments.verify)
    difference = round_trip_difference(context.storage, done.path, arguments.out + ".verify.tmp",
                                       DType::F32);
  report(context, arguments.out, done.tensors, done.bytes, difference);
  check_round_trip(DType::F32, difference);
  return 0;
}

// The one that is named, else that of the checkpoint, or bytes in the form that others read.
TokenizerFiles tokenizer_for_export(const Arguments& arguments, Storage& storage) {
  const std::string path = resolve_checkpoint(storage, arguments.from);
  const Manifest manifest = read_manifest(storage, path);
  const Config config = parse_config(manifest.state.config, path, {}).config;
  const bool is_named = !arguments.tokenizer.empty();
  TokenizerFiles files = is_named ? read_tokenizer_files(storage, arguments.tokenizer)
                                  : read_tokenizer(storage, path, manifest);
  const DataConfig& data = config.data;
  const bool is_bytes =
      data.tokenizer == "bytes" ||
      (data.tokenizer.empty() && (data.kind == DataKind::Builtin || data.kind == DataKind::Text));
  if (files.empty() && is_bytes) files = byte_tokenizer_files();
  complete_for_transformers(files, config.model.seq);
  return files;
}

int run_export(const Arguments& arguments, Context& context) {
  SXT_CHECK(!is_hf_directory(context.storage, arguments.from), Usage, arguments.from,
            " is a Hugging Face directory; export makes one of a checkpoint");
  SXT_CHECK(!context.storage.exists(arguments.out) || context.storage.is_directory(arguments.out),
            Usage, "--out ", arguments.out, ": a file; a directory is needed");
  const DType dtype = parse_dtype(arguments.dtype);
  ExportOptions options;
  options.dtype = dtype;
  options.tokenizer = tokenizer_for_export(arguments, context.storage);
  const ExportReport done = export_hf(context.storage, arguments.from, arguments.out, options);
  if (!done.left_out.empty()) context.log.warning(done.left_out);
  std::optional<double> difference;
  if (arguments.verify)
    difference = round_trip_difference(context.storage, arguments.from,
                                       arguments.out + ".verify.tmp", dtype);
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
           {"--tokenizer", "tokenizer.json to write along; without it, that of the checkpoint",
            &arguments->tokenizer},
           {"--verify", "Import it again and compare logits", &arguments->verify}},
          [arguments](Context& context) { return run_export(*arguments, context); }};
}

}  // namespace sextant::cli
