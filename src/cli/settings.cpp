#include "cli/settings.h"

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

}  // namespace sextant::cli
