#include <string>

#include "base/error.h"
#include "config/check.h"

namespace sextant {
namespace {

// Whether a rank's heads can be exchanged for tokens over so many ranks.
bool exchanges_heads(const Config& config, int ranks) {
  const ModelConfig& model = config.model;
  const int64_t tp = config.parallel.tp;
  const int64_t heads = model.heads / tp, kv_heads = tp > model.kv_heads ? 1 : model.kv_heads / tp;
  return heads % ranks == 0 && (kv_heads % ranks == 0 || ranks % kv_heads == 0);
}

// Those of so many ranks that may exchange heads in a ring of 2 or more such groups: the most, or
// 0.
int most_in_group(const Config& config, int ranks) {
  for (int group = ranks / 2; group > 1; --group)
    if (ranks % group == 0 && exchanges_heads(config, group)) return group;
  return 0;
}

bool has_groups(int ranks) {
  for (int group = 2; group <= ranks / 2; ++group)
    if (ranks % group == 0) return true;
  return false;
}

bool cuts_sequence(const Config& config, int ranks) {
  const bool is_contiguous = config.parallel.cp_kind == ContextKind::Ulysses;
  return config.model.seq % ((is_contiguous ? 1 : 2) * ranks) == 0;
}

bool cuts_heads(const Config& config, int ranks) {
  const ContextKind kind = config.parallel.cp_kind;
  if (kind == ContextKind::Ulysses) return exchanges_heads(config, ranks);
  return kind != ContextKind::RingUlysses || most_in_group(config, ranks) > 0;
}

// "parallel.cp = 2 works", or another kind.
std::string what_works(const Config& config) {
  Config asked = config;
  while (asked.parallel.cp > 2) {
    --asked.parallel.cp;
    if (context_works(asked)) return concat("parallel.cp = ", asked.parallel.cp, " works");
  }
  asked = config;
  asked.parallel.cp_kind = ContextKind::Ring;
  return context_works(asked) ? "parallel.cp_kind = ring works" : "parallel.cp = 1 works";
}

void check_group(const Config& config, const Settings& settings) {
  const int group = config.parallel.ulysses, cp = config.parallel.cp;
  SXT_CHECK(group > 1 && cp % group == 0 && group < cp && exchanges_heads(config, group), Config,
            settings.where("parallel.ulysses"), "parallel.ulysses = ", group,
            " does not cut parallel.cp = ", cp, " into a ring of groups that share ",
            config.model.heads / config.parallel.tp,
            " heads: parallel.ulysses = ", most_in_group(config, cp), " works");
}

}  // namespace

const char* name_of(ContextKind kind) {
  constexpr const char* kNames[] = {"ring", "ulysses", "allgather", "ring+ulysses"};
  return kNames[static_cast<size_t>(kind)];
}

bool context_works(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  const bool cuts_tokens = !parallel.sequence || config.model.seq / parallel.cp % parallel.tp == 0;
  return parallel.cp == 1 ||
         (cuts_sequence(config, parallel.cp) && cuts_heads(config, parallel.cp) && cuts_tokens);
}

void resolve_context(ResolvedConfig& out, const Settings& settings) {
  const Config& config = out.config;
  ParallelConfig& parallel = out.config.parallel;
  if (parallel.cp == 1) return;
  const std::string where = settings.where("parallel.cp");
  const std::string kind = concat("parallel.cp_kind = ", name_of(parallel.cp_kind));
  const bool is_contiguous = parallel.cp_kind == ContextKind::Ulysses;
  SXT_CHECK(cuts_sequence(config, parallel.cp), Config, where, "parallel.cp = ", parallel.cp,
            " does not cut model.seq = ", config.model.seq, " into ",
            (is_contiguous ? 1 : 2) * parallel.cp, " equal parts, as ", kind,
            " needs: ", what_works(config));
  SXT_CHECK(parallel.cp_kind != ContextKind::RingUlysses || has_groups(parallel.cp), Config, where,
            "parallel.cp = ", parallel.cp, " with ", kind,
            " is no ring of 2 or more groups of 2 or more ranks: ", what_works(config));
  SXT_CHECK(cuts_heads(config, parallel.cp), Config, where, "parallel.cp = ", parallel.cp, " with ",
            kind, " does not cut the ", config.model.heads / parallel.tp,
            " heads of a rank (model.kv_heads = ", config.model.kv_heads,
            "): ", what_works(config));
  if (parallel.cp_kind != ContextKind::RingUlysses) {
    parallel.ulysses = 1;
    return;
  }
  if (settings.has("parallel.ulysses")) return check_group(config, settings);
  parallel.ulysses = most_in_group(config, parallel.cp);
  out.origins["parallel.ulysses"] = "derived";
}

}  // namespace sextant
