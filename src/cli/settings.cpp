#include "cli/settings.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "checkpoint/directory.h"
#include "checkpoint/hf.h"
#include "checkpoint/load.h"
#include "config/keys.h"
#include "data/data_tokenizer.h"
#include "formats/hf_directory.h"
#include "train/same_model.h"

namespace sextant::cli {
namespace {

// A whole checkpoint of the run of these settings, the latest if it is whole; "" without.
std::string own_checkpoint(Context& context, const std::string& path) {
  Storage& storage = context.storage;
  std::string directory = read_text_setting(storage, path, context.overrides, "checkpoint.dir");
  if (directory.empty())
    directory =
        join_path(read_text_setting(storage, path, context.overrides, "run.out"), kCheckpointsName);
  if (!storage.is_directory(directory)) return "";
  std::string found;
  for (const CheckpointInfo& info : list_checkpoints(storage, directory, Check::Sizes)) {
    if (!info.ok) continue;
    found = info.path;
    if (info.is_latest) break;
  }
  return found;
}

}  // namespace

ResolvedConfig load_settings(Context& context, const std::string& path, const RunStart& start) {
  Storage& storage = context.storage;
  LoadOptions options;
  options.read_hf = [&](const std::string& directory) {
    return model_config_from_hf(read_hf_config(storage, directory));
  };
  options.read_vocab = [&](const DataConfig& data) {
    const DataVocabulary found = vocabulary_of(storage, data);
    return LoadOptions::Vocabulary{found.ids, found.is_bytes, found.problem};
  };
  const std::string own = start.resumes ? own_checkpoint(context, path) : "";
  if (own.empty() && start.from.empty())
    return load_config(storage, path, context.overrides, options);
  const std::string checkpoint = own.empty() ? resolve_weights(storage, start.from) : own;
  const bool is_hf = is_hf_directory(storage, checkpoint);
  const Manifest manifest = is_hf ? Manifest() : read_manifest(storage, checkpoint);
  const std::string settings =
      is_hf ? read_hf_settings(storage, checkpoint) : manifest.state.config;
  options.start = parse_config(settings, checkpoint, {}).config.model;
  options.start->dropout = 0;  // belongs to a training
  options.start_name = checkpoint;
  ResolvedConfig resolved = load_config(storage, path, context.overrides, options);
  if (own.empty()) check_same_model(*options.start, resolved.config.model, checkpoint);
  const DataConfig& data = resolved.config.data;
  const bool reads_text = data.kind == DataKind::Text || data.kind == DataKind::Builtin;
  const bool has_tokenizer =
      is_hf ? storage.exists(join_path(checkpoint, kTokenizerJson)) : !manifest.tokenizer.empty();
  if (!reads_text || !data.tokenizer.empty() || !has_tokenizer) return resolved;
  std::vector<std::string> overrides = context.overrides;
  overrides.push_back(concat("data.tokenizer=", join_path(checkpoint, kTokenizerJson)));
  return load_config(storage, path, overrides, options);
}

void check_one_rank_settings(const Context& context, const std::string& command,
                             std::span<const std::string_view> used) {
  constexpr std::string_view kOfTraining[] = {"model.init_std", "model.dropout"};
  for (const std::string& setting : context.overrides) {
    const std::string name = setting.substr(0, setting.find('='));
    const bool is_used = std::ranges::find(kOfTraining, name) == std::end(kOfTraining) &&
                         std::ranges::any_of(used, [&](std::string_view own) {
                           return own.ends_with('.') ? name.starts_with(own) : name == own;
                         });
    SXT_CHECK(is_used || find_key(name) == nullptr, Usage, "--", setting, ": ", command,
              name.starts_with("parallel.") ? " runs on one rank and" : "", " does not use ", name,
              "; leave it out");
  }
}

void check_listed_ranks(const Context& context, const Config& config) {
  constexpr int kMost = 65536;
  const int ranks = world_size(config.parallel);
  SXT_CHECK(!context.json || ranks <= kMost, Config, "--json lists every rank, and ", ranks,
            " are more than ", kMost, "; without it equal ranks are one line");
}

}  // namespace sextant::cli
