#include "program/stages.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/parse.h"

namespace sextant {
namespace {

std::string list_text(const std::vector<int>& counts) {
  std::string text;
  for (const int count : counts) text += concat(text.empty() ? "" : ",", count);
  return text;
}

// Costs of the units that stages consist of: embedding, blocks, head.
std::vector<double> unit_costs(const Blueprint& blueprint) {
  std::vector<double> costs;
  for (size_t layer = 0; layer < blueprint.layers.size(); ++layer) {
    const double cost = estimate_cost(blueprint, layer).total();
    if (is_feed_forward(blueprint.layers[layer].kind))
      costs.back() += cost;  // a block is attention and MLP
    else
      costs.push_back(cost);
  }
  return costs;
}

std::vector<int> even_counts(const Blueprint& blueprint, int stages) {
  const int64_t layers = blueprint.model.layers;
  if (layers % stages != 0) {
    std::string divisors;
    for (int64_t d = 1; d <= layers; ++d)
      if (layers % d == 0) divisors += concat(divisors.empty() ? "" : ", ", d);
    SXT_FAIL(Config, "model.layers = ", layers, " do not divide into ", stages,
             " stages (parallel.pp x chunks): take ", divisors, " stages, or ",
             layers + 2 >= stages
                 ? concat("parallel.split = balanced, which is ",
                          list_text(balance(unit_costs(blueprint), stages)))
                 : concat("with parallel.split = balanced at most ", layers + 2, " stages"));
  }
  return std::vector<int>(static_cast<size_t>(stages), static_cast<int>(layers / stages));
}

std::vector<int> listed_counts(const Blueprint& blueprint, int stages, const std::string& split) {
  std::vector<int> counts;
  for (const std::string& part : sextant::split(split, ',')) {
    const std::optional<int64_t> count = parse_int(part);
    SXT_CHECK(count && *count >= 0 && *count <= blueprint.model.layers, Config,
              "parallel.split = ", split, ": '", part,
              "' is no number of layers; even, balanced, or a list such as 3,2,2,1");
    counts.push_back(static_cast<int>(*count));
  }
  SXT_CHECK(static_cast<int>(counts.size()) == stages, Config, "parallel.split = ", split,
            " lists ", counts.size(), " stages; parallel.pp x chunks is ", stages);
  const int sum = std::accumulate(counts.begin(), counts.end(), 0);
  SXT_CHECK(sum == blueprint.model.layers, Config, "parallel.split = ", split, " has ", sum,
            " layers; model.layers is ", blueprint.model.layers);
  for (int stage = 1; stage + 1 < stages; ++stage)
    SXT_CHECK(counts[static_cast<size_t>(stage)] > 0, Config, "parallel.split = ", split,
              ": stage ", stage,
              " has no layer; only the first and the last may, besides embedding ", "and head");
  return counts;
}

// Minimum number of blocks of stage `stage`.
int least_blocks(int stage, int stages) {
  return stages > 1 && (stage == 0 || stage == stages - 1) ? 0 : 1;
}

// For each stage, the blocks after which it may end: those that leave enough to all stages.
std::vector<Range> possible_ends(int blocks, int stages) {
  std::vector<Range> ends(static_cast<size_t>(stages));
  int64_t least = 0, most = blocks;
  for (int stage = 0; stage < stages; ++stage)
    ends[static_cast<size_t>(stage)].begin = least += least_blocks(stage, stages);
  for (int stage = stages - 1; stage >= 0; --stage) {
    ends[static_cast<size_t>(stage)].end = most + 1;
    most -= least_blocks(stage, stages);
  }
  ends.back().begin = blocks;
  return ends;
}

constexpr int64_t kMostTried = 200'000'000;  // by balance

}  // namespace

LayerCost estimate_cost(const Blueprint& blueprint, size_t layer) {
  const LayerSpec& spec = blueprint.layers[layer];
  const ModelConfig& model = blueprint.model;
  const auto matmul = 2 * static_cast<double>(spec.matmul_params);
  if (spec.kind == LayerKind::Embedding) {
    const auto row = static_cast<double>(model.hidden);
    return {row, 0, row};
  }
  if (spec.kind != LayerKind::Attention) return {matmul, matmul, matmul};
  // Scores and weighted values, half of them masked; backward recomputes the scores and has four
  // more products.
  const double scores =
      2 * static_cast<double>(model.heads * model.head_dim) * static_cast<double>(model.seq);
  return {matmul + scores, matmul + 2.5 * scores, matmul};
}

StageCost stage_cost(const Blueprint& blueprint, const Range& stage) {
  double block = 0;
  for (const size_t layer : {1, 2}) block += estimate_cost(blueprint, layer).forward;
  StageCost cost{0, 0, 0, 0, 0};
  for (int64_t layer = stage.begin; layer < stage.end; ++layer) {
    const LayerCost own = estimate_cost(blueprint, static_cast<size_t>(layer));
    cost.forward_time += own.forward / block;
    cost.input_grad_time += own.input / block;
    cost.weight_grad_time += own.weight / block;
  }
  cost.activation_memory = 1;
  cost.memory_for_weight_grad = 0.5;
  return cost;
}

// Two dynamic programs over (stage, blocks so far): the minimal cost of the costliest stage, then
// the least sum of squares under that bound. Only stages within a bound are tried, at first that of
// blocks spread evenly.
std::vector<int> balance(const std::vector<double>& costs, int stages) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const int blocks = static_cast<int>(costs.size()) - 2;
  SXT_CHECK(blocks + 2 >= stages, Config, blocks, " layers, an embedding and a head do not make ",
            stages, " stages (parallel.pp x chunks): at most ", blocks + 2);
  std::vector<double> sums = {0};  // of blocks
  for (int i = 0; i < blocks; ++i) sums.push_back(sums.back() + costs[static_cast<size_t>(i) + 1]);
  const auto cost_of = [&](int stage, int begin, int end) {
    return sums[static_cast<size_t>(end)] - sums[static_cast<size_t>(begin)] +
           (stage == 0 ? costs.front() : 0) + (stage == stages - 1 ? costs.back() : 0);
  };
  const std::vector<Range> ends = possible_ends(blocks, stages);
  double bound = 0;
  for (int stage = 0, begin = 0; stage < stages; ++stage) {
    const Range& range = ends[static_cast<size_t>(stage)];
    const int64_t even = int64_t{blocks} * (stage + 1) / stages;
    const int end = static_cast<int>(std::clamp(even, range.begin, range.end - 1));
    bound = std::max(bound, cost_of(stage, begin, end));
    begin = end;
  }
  int64_t tried = 0;
  std::vector<std::vector<int>> from;
  const auto sweep = [&](auto&& join) {
    std::vector<double> best(static_cast<size_t>(blocks) + 1, kNever);
    best[0] = 0;
    from.assign(static_cast<size_t>(stages), std::vector<int>(best.size(), -1));
    for (int stage = 0; stage < stages; ++stage) {
      std::vector<double> next(best.size(), kNever);
      const Range& range = ends[static_cast<size_t>(stage)];
      int first = 0;  // the first begin within the bound
      for (int end = static_cast<int>(range.begin); end < range.end; ++end) {
        const int last = end - least_blocks(stage, stages);
        while (first <= last && cost_of(stage, first, end) > bound) ++first;
        tried += last - first + 1;
        SXT_CHECK(tried <= kMostTried, Config, "parallel.split = balanced of ", blocks,
                  " layers into ", stages, " stages (parallel.pp x chunks) takes more than ",
                  kMostTried, " trials: fewer layers, or a list of layers instead, takes none");
        for (int begin = first; begin <= last; ++begin) {
          const double before = best[static_cast<size_t>(begin)];
          if (before == kNever) continue;
          const double joined = join(before, cost_of(stage, begin, end));
          if (joined >= next[static_cast<size_t>(end)]) continue;
          next[static_cast<size_t>(end)] = joined;
          from[static_cast<size_t>(stage)][static_cast<size_t>(end)] = begin;
        }
      }
      best = std::move(next);
    }
    return best.back();
  };
  bound = sweep([](double before, double cost) { return std::max(before, cost); });
  bound *= 1 + 1e-12;
  sweep([](double before, double cost) { return before + cost * cost; });
  std::vector<int> counts(static_cast<size_t>(stages));
  for (int stage = stages - 1, end = blocks; stage >= 0; --stage) {
    const int begin = from[static_cast<size_t>(stage)][static_cast<size_t>(end)];
    counts[static_cast<size_t>(stage)] = end - begin;
    end = begin;
  }
  return counts;
}

std::vector<Range> split_stages(const Blueprint& blueprint, int stages, const std::string& split) {
  const std::vector<int> counts = split == "even"       ? even_counts(blueprint, stages)
                                  : split == "balanced" ? balance(unit_costs(blueprint), stages)
                                                        : listed_counts(blueprint, stages, split);
  std::vector<Range> out;
  int64_t at = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const int64_t begin = at;
    if (stage == 0) ++at;  // the embedding
    at += 2 * counts[static_cast<size_t>(stage)];
    if (stage == stages - 1) ++at;  // the head
    out.push_back({begin, at});
  }
  SXT_CHECK(at == static_cast<int64_t>(blueprint.layers.size()), Internal, "stages have ", at,
            " of ", blueprint.layers.size(), " layers");
  return out;
}

}  // namespace sextant
