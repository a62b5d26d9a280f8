#include "cli/settings.h"

#include "base/error.h"
#include "checkpoint/hf.h"
#include "checkpoint/load.h"
#include "config/keys.h"
#include "data/data_tokenizer.h"
#include "formats/hf_directory.h"
#include "train/same_model.h"

namespace sextant::cli {

ResolvedConfig load_settings(Context& context, const std::string& path, const std::string& from) {
  Storage& storage = context.storage;
  LoadOptions options;
  options.read_hf = [&](const std::string& directory) {
    return model_config_from_hf(read_hf_config(storage, directory));
  };
  options.read_vocab = [&](const DataConfig& data) {
    const DataVocabulary found = vocabulary_of(storage, data);
    return LoadOptions::Vocabulary{found.ids, found.is_bytes};
  };
  if (from.empty()) return load_config(storage, path, context.overrides, options);
  const std::string checkpoint = resolve_checkpoint(storage, from);
  const Manifest manifest = read_manifest(storage, checkpoint);
  options.start = parse_config(manifest.state.config, checkpoint, {}).config.model;
  options.start_name = from;
  ResolvedConfig resolved = load_config(storage, path, context.overrides, options);
  check_same_model(*options.start, resolved.config.model, checkpoint);
  if (resolved.config.data.kind == DataKind::Text && resolved.config.data.tokenizer.empty() &&
      !manifest.tokenizer.empty()) {
    std::vector<std::string> overrides = context.overrides;
    overrides.push_back(concat("data.tokenizer=", join_path(checkpoint, kTokenizerJson)));
    resolved = load_config(storage, path, overrides, options);
  }
  return resolved;
}

void check_one_rank_settings(const Context& context, const std::string& command) {
  for (const std::string& setting : context.overrides) {
    const std::string section = setting.substr(0, setting.find('.'));
    const bool is_used = section == "model" || section == "data" || section == "precision" ||
                         section == "run" || setting.starts_with("train.seed=");
    SXT_CHECK(is_used || find_key(setting.substr(0, setting.find('='))) == nullptr, Usage, "--",
              setting, ": ", command, " runs on one rank and does not use [", section,
              "]; leave it out");
  }
}

void check_listed_ranks(const Context& context, const Config& config) {
  constexpr int kMost = 65536;
  const int ranks = world_size(config.parallel);
  SXT_CHECK(!context.json || ranks <= kMost, Config, "--json lists every rank, and ", ranks,
            " are more than ", kMost, "; without it equal ranks are one line");
}

}  // namespace sextant::cli
