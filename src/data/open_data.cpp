#include "data/open_data.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/parse.h"

namespace sextant {

Loader open_data(const Config& config, Storage& storage, Log& log,
                 std::function<void(const Loader&)> on_tokenizer) {
  LoaderSettings settings;
  settings.seq = config.model.seq;
  settings.vocab = config.model.vocab;
  settings.seed = config.train.seed;
  settings.threads = config.run.threads;
  settings.on_progress = [&log](const TokenizeProgress& progress) {
    log.progress(concat("tokenizing: ", format_count(static_cast<double>(progress.tokens)),
                        " tokens, ", progress.taken * 100 / std::max<int64_t>(1, progress.stored),
                        " %: ", progress.file));
  };
  settings.on_tokenizer = std::move(on_tokenizer);
  Loader loader = Loader::open(storage, config.data, settings);
  if (!loader.note().empty()) log.info(loader.note());
  return loader;
}

}  // namespace sextant
