#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "checkpoint/directory.h"
#include "checkpoint/load.h"
#include "cli/command.h"
#include "cli/print.h"

namespace sextant::cli {
namespace {

nlohmann::ordered_json to_json(const CheckpointInfo& info) {
  return {{"path", info.path},       {"step", info.step},      {"layout", info.layout},
          {"tensors", info.tensors}, {"bytes", info.bytes},    {"latest", info.is_latest},
          {"ok", info.ok},           {"problem", info.problem}};
}

int list_all(const std::string& directory, Context& context) {
  SXT_CHECK(context.storage.is_directory(directory), Data, directory, ": no such directory");
  const std::vector<CheckpointInfo> all =
      list_checkpoints(context.storage, checkpoints_of(context.storage, directory), Check::Sizes);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CheckpointInfo& info : all) {
    rows.push_back(to_json(info));
    if (!context.json)
      print_line(fmt::format("{}  step {}  {}  {} tensors  {}  {}{}", info.name, info.step,
                             info.layout, info.tensors, format_bytes(info.bytes),
                             info.ok ? "whole" : info.problem, info.is_latest ? "  latest" : ""));
  }
  if (context.json)
    print_json(nlohmann::ordered_json{{"checkpoints", rows}});
  else if (all.empty())
    print_line("no checkpoints in " + directory);
  return 0;
}

int inspect(const std::string& path, Context& context) {
  const std::string checkpoint = resolve_checkpoint(context.storage, path);
  const Manifest manifest = read_manifest(context.storage, checkpoint);
  check_sizes(context.storage, checkpoint, manifest);
  if (context.json) {
    nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
    for (const TensorEntry& entry : manifest.tensors)
      tensors.push_back({{"name", entry.name},
                         {"shape", entry.shape},
                         {"dtype", name_of(entry.dtype)},
                         {"bytes", entry.bytes()}});
    print_json({{"path", checkpoint},
                {"step", manifest.state.step},
                {"layout", manifest.state.layout},
                {"tensors", tensors},
                {"bytes", manifest.file_bytes()},
                {"ok", true}});
    return 0;
  }
  print_line(fmt::format("{}: step {}, {}, {} tensors, {}", checkpoint, manifest.state.step,
                         manifest.state.layout, manifest.tensors.size(),
                         format_bytes(manifest.file_bytes())));
  for (const TensorEntry& entry : manifest.tensors)
    print_line(fmt::format("  {}  {}  {}", entry.name, name_of(entry.dtype),
                           Shape(entry.shape).dims() > 0 ? concat(Shape(entry.shape)) : "[]"));
  return 0;
}

// A damaged checkpoint is an answer too: with --json a document says so before the error does.
CheckpointReport verify_or_report(const std::string& checkpoint, Context& context) {
  try {
    return verify_checkpoint(context.storage, checkpoint);
  } catch (const Error& error) {
    if (context.json) print_json({{"path", checkpoint}, {"ok", false}, {"problem", error.what()}});
    throw;
  }
}

int verify(const std::string& path, Context& context) {
  const std::string checkpoint = resolve_checkpoint(context.storage, path);
  const CheckpointReport report = verify_or_report(checkpoint, context);
  if (context.json)
    print_json({{"path", checkpoint},
                {"step", report.step},
                {"layout", report.layout},
                {"tensors", report.tensors},
                {"bytes", report.bytes},
                {"ok", true}});
  else
    print_line(fmt::format("{}: step {}, {} tensors in {}, {}, every digest right", checkpoint,
                           report.step, report.tensors, counted(report.files, "file", "files"),
                           format_bytes(report.bytes)));
  return 0;
}

Command action(const std::string& name, const std::string& help,
               int (*act)(const std::string&, Context&)) {
  const auto path = std::make_shared<std::string>();
  return {name,
          help,
          {{"path", "Checkpoint, or the directory of a run's checkpoints", path.get(),
            Option::Need::Required}},
          [path, act](Context& context) { return act(*path, context); }};
}

}  // namespace

Command checkpoint_command() {
  Command command{"checkpoint", "List, inspect and verify checkpoints"};
  command.subcommands = {action("list", "All checkpoints of a directory", list_all),
                         action("inspect", "The tensors of one checkpoint", inspect),
                         action("verify", "Read every byte and check its digest", verify)};
  return command;
}

}  // namespace sextant::cli
