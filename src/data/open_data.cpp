#include "data/open_data.h"

#include "base/parse.h"

namespace sextant {

Loader open_data(const Config& config, Storage& storage, Log& log) {
  LoaderSettings settings;
  settings.seq = config.model.seq;
  settings.vocab = config.model.vocab;
  settings.seed = config.train.seed;
  settings.threads = config.run.threads;
  settings.on_progress = [&log](const TokenizeProgress& progress) {
    log.progress("tokenizing " + progress.file + ": " +
                 format_count(static_cast<double>(progress.tokens)) + " tokens");
  };
  Loader loader = Loader::open(storage, config.data, settings);
  if (!loader.note().empty()) log.info(loader.note());
  return loader;
}

}  // namespace sextant
