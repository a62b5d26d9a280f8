#include "train/run_inputs.h"

#include "checkpoint/directory.h"
#include "checkpoint/hf.h"
#include "data/data_tokenizer.h"
#include "data/open_data.h"
#include "data/tokenizer.h"
#include "train/same_tokenizer.h"

namespace sextant {

std::string resume_point(const Config& config, const RunOptions& options,
                         const RunContext& context) {
  if (!options.resume) return "";
  return find_checkpoint(context.storage, checkpoint_directory(config), options.resume_from,
                         [&](const std::string& text) { context.log.warning(text); });
}

std::string source_of(const RunOptions& options, const RunContext& context) {
  return options.from.empty() ? "" : resolve_weights(context.storage, options.from);
}

Loader open_run_data(const Config& config, const RunOptions& options, const RunContext& context) {
  const std::string from = options.resume ? "" : source_of(options, context);
  if (from.empty()) return open_data(config, context.storage, context.log);
  const TokenizerDigest own = tokenizer_digest(context.storage, from);
  return open_data(config, context.storage, context.log, [&](const Loader& data) {
    check_same_tokenizer(own, tokenizer_digest(data), from);
  });
}

void check_source(const Config& config, const RunOptions& options, const RunContext& context) {
  if (!resume_point(config, options, context).empty()) return;
  const std::string from = source_of(options, context);
  if (!from.empty() && is_hf_directory(context.storage, from))
    read_hf_model(context.storage, from, context.log, [](const HfModel&) {});
}

void check_inputs(const Config& config, const RunOptions& options, const RunContext& context) {
  check_source(config, options, context);
  if (config.data.kind == DataKind::Text) {
    Tokenizer::open(context.storage, config.data.tokenizer);
    for (const BlendPart& part : sources_of(config.data))
      for (const std::string& file : matching_files(context.storage, part.path, Content::Text))
        context.storage.open(file);
    return;
  }
  open_run_data(config, options, context);
}

}  // namespace sextant
