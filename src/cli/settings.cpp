#include "cli/settings.h"

#include "base/error.h"
#include "checkpoint/hf.h"
#include "formats/hf_directory.h"

namespace sextant::cli {

ResolvedConfig load_settings(Context& context, const std::string& path) {
  LoadOptions options;
  options.read_hf = [&](const std::string& directory) {
    return model_config_from_hf(read_hf_config(context.storage, directory));
  };
  return load_config(context.storage, path, context.overrides, options);
}

void check_listed_ranks(const Context& context, const Config& config) {
  constexpr int kMost = 65536;
  const int ranks = world_size(config.parallel);
  SXT_CHECK(!context.json || ranks <= kMost, Config, "--json lists every rank, and ", ranks,
            " are more than ", kMost, "; without it equal ranks are one line");
}

}  // namespace sextant::cli
