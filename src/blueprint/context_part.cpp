#include "blueprint/context_part.h"

#include <algorithm>

namespace sextant {
namespace {

// Causal pairs of a query in one range with a key in the other.
int64_t pairs_of(const Range& queries, const Range& keys) {
  int64_t pairs = 0;
  for (int64_t query = queries.begin; query < queries.end; ++query)
    pairs += std::clamp<int64_t>(query + 1 - keys.begin, 0, keys.size());
  return pairs;
}

}  // namespace

ContextPart context_part(const ParallelConfig& parallel, int rank) {
  ContextPart part{parallel.cp, rank};
  if (parallel.cp == 1) return part;
  if (parallel.cp_kind == ContextKind::Ulysses) part.ulysses = parallel.cp;
  if (parallel.cp_kind == ContextKind::RingUlysses) part.ulysses = parallel.ulysses;
  part.uses_all_gather = parallel.cp_kind == ContextKind::AllGather;
  return part;
}

std::vector<Range> tokens_of_group(const ContextPart& part, int group, int64_t seq) {
  const int ring = part.ring();
  if (ring == 1) return {{0, seq}};
  const Range early = even_part(seq, 2 * ring, group);
  const Range late = even_part(seq, 2 * ring, 2 * ring - 1 - group);
  if (early.end == late.begin) return {{early.begin, late.end}};
  return {early, late};
}

std::vector<Range> tokens_of(const ContextPart& part, int64_t seq) {
  const Range own = even_part(seq / part.ring(), part.ulysses, part.rank % part.ulysses);
  std::vector<Range> runs;
  int64_t before = 0;
  for (const Range& run : tokens_of_group(part, part.group(), seq)) {
    const Range cut = overlap({before, before + run.size()}, own);
    if (cut.size() > 0)
      runs.push_back({run.begin + cut.begin - before, run.begin + cut.end - before});
    before += run.size();
  }
  return runs;
}

int64_t context_parts(const ContextPart& part) {
  return part.uses_all_gather ? 1 : part.ring();
}

int64_t kv_copies(const ContextPart& part, int64_t kv_heads) {
  return std::max<int64_t>(1, part.ulysses / kv_heads);
}

std::vector<int64_t> causal_pairs(const ContextPart& part, int64_t seq) {
  std::vector<int64_t> steps;
  const int ring = part.ring();
  for (int step = 0; step < ring; ++step) {
    int64_t& pairs = steps.emplace_back(0);
    for (const Range& queries : tokens_of_group(part, part.group(), seq))
      for (const Range& keys : tokens_of_group(part, (part.group() - step + ring) % ring, seq))
        pairs += pairs_of(queries, keys);
  }
  return steps;
}

}  // namespace sextant
