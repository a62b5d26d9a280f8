#include "train/rehearsal.h"

#include <algorithm>
#include <string>
#include <vector>

#include "blueprint/context_part.h"

namespace sextant {
namespace {

// A core runs and plans some millions per second; two or more kinds have two cores.
constexpr int64_t kMostOfOneKind = 2'500'000, kMostOperations = 6'000'000;
constexpr int64_t kMostOfOneTrace = int64_t{160} << 20, kMostTraceBytes = int64_t{256} << 20;

// Settings that multiply the operations of a step, with about how often they do.
struct Multiplier {
  int64_t times = 1;
  std::string text, advice;
};

// The largest of them.
Multiplier multiplier_of(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  std::vector<Multiplier> all = {
      {config.batch.accumulation,
       concat("batch.accumulation = ", config.batch.accumulation, " micro-batches"),
       concat("a smaller batch.accumulation",
              parallel.pp > 1 ? ", or a parallel.schedule with a steady state," : "")},
      {config.model.layers, concat("model.layers = ", config.model.layers), "fewer layers"},
      {parallel.pp, concat("parallel.pp = ", parallel.pp), "a smaller parallel.pp"},
      {parallel.shard, concat("parallel.shard = ", parallel.shard),
       "a parallel.shard that divides the parameters evenly"}};
  if (parallel.tp_overlap)
    all.push_back({2 * parallel.tp, concat("parallel.tp = ", parallel.tp, " with tp_overlap"),
                   "parallel.tp_overlap = false"});
  const int parts = context_parts(context_part(parallel, 0));
  if (parts > 1)
    all.push_back({2 * int64_t{parts}, concat("parallel.cp = ", parallel.cp, " in a ring"),
                   "parallel.cp_kind = allgather"});
  if (config.memory.logits == LogitsPolicy::Chunked)
    all.push_back({config.model.vocab / 4096,
                   concat("model.vocab = ", config.model.vocab, " with memory.logits = chunked"),
                   "memory.logits = keep"});
  return *std::ranges::max_element(all, {}, &Multiplier::times);
}

}  // namespace

Budget rehearsal_budget(const Config& config, int kinds) {
  const Multiplier most = multiplier_of(config);
  const int64_t operations = kinds == 1 ? kMostOfOneKind : kMostOperations;
  return Budget(operations,
                concat("planning this run ahead takes more than ", operations, " operations, with ",
                       most.text, ": ", most.advice, " needs fewer"));
}

Budget trace_budget(const Config& config, int ranks, int64_t most) {
  const Multiplier largest = multiplier_of(config);
  const int64_t bytes = most > 0 ? most : ranks == 1 ? kMostOfOneTrace : kMostTraceBytes;
  return Budget(bytes, concat("the trace of a step of this run takes more than ", bytes >> 20,
                              " MiB, with ", largest.text, ": ", largest.advice, " needs less"));
}

}  // namespace sextant
