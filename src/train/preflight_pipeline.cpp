#include "train/preflight_pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/columns.h"
#include "base/parse.h"
#include "program/pipeline.h"
#include "program/stages.h"
#include "sim/simulate.h"

namespace sextant {
namespace {

constexpr int kMostRanks = 12;     // lines
constexpr size_t kMostChunks = 4;  // stages per line of a rank

double total(const StageCost& cost) {
  return cost.forward_time + cost.input_grad_time + cost.weight_grad_time;
}

// Leaves out the middle of a long list.
std::string listed(std::vector<std::string> parts, const char* separator) {
  if (parts.size() > kMostChunks) {
    parts.erase(parts.begin() + kMostChunks - 2, parts.end() - 1);
    parts.insert(parts.end() - 1, "…");
  }
  return join(parts, separator);
}

// The line of a rank: its stages, their costs and layers.
TextRow row_of(const PipelineOutlook& outlook, int rank) {
  if (rank == kLeftOut) return {"…", "…", "…", "…", "…"};
  std::vector<std::string> stages, costs, layers;
  for (const PipelineOutlook::Stage& stage : outlook.stages) {
    if (stage.rank != rank) continue;
    stages.push_back(std::to_string(stage.stage));
    costs.push_back(fmt::format("{:.2f}", stage.cost));
    layers.push_back(stage.layers);
  }
  const int first = rank * outlook.data_ranks;
  return {std::to_string(rank),
          outlook.data_ranks == 1 ? std::to_string(first)
                                  : fmt::format("{}-{}", first, first + outlook.data_ranks - 1),
          listed(stages, " "), listed(costs, " "), listed(layers, "; ")};
}

std::string counted(int count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace

PipelineOutlook pipeline_outlook(const Blueprint& blueprint, const Pipeline& pipeline,
                                 const ParallelConfig& parallel) {
  const Schedule& schedule = pipeline.schedule;
  PipelineOutlook out;
  out.schedule = schedule.name;
  out.ranks = schedule.size();
  out.micros = schedule.micros;
  out.data_ranks = world_size(parallel) / parallel.pp;
  out.stage_count = schedule.stages;
  Costs costs;
  costs.stages.clear();
  double sum = 0;
  for (const Range& stage : pipeline.stages) {
    costs.stages.push_back(stage_cost(blueprint, stage));
    sum += total(costs.stages.back());
  }
  for (int rank = 0; rank < schedule.size(); ++rank)
    for (const RankPart::Chunk& chunk : part_of(blueprint, pipeline, rank).chunks) {
      const auto stage = static_cast<size_t>(chunk.stage);
      out.stages.push_back({chunk.stage, rank, layers_text(blueprint, pipeline.stages[stage]),
                            total(costs.stages[stage]) * schedule.stages / sum});
    }
  std::ranges::stable_sort(out.stages, {}, &PipelineOutlook::Stage::stage);
  const Figures figures = measure(simulate(schedule, costs));
  out.bubble_fraction = figures.bubble_fraction;
  out.utilisation = figures.utilisation;
  return out;
}

PipelineOutlook pipeline_outlook(const Config& config) {
  const Blueprint blueprint = make_blueprint(config.model);
  return pipeline_outlook(
      blueprint,
      make_pipeline(blueprint, config.parallel, static_cast<int>(config.batch.accumulation)),
      config.parallel);
}

std::string pipeline_text(const PipelineOutlook& outlook, const std::string& title, size_t indent) {
  std::string text =
      fmt::format("{:<{}}{}: {}, {}, {}; expected bubble {:.1f} %, utilisation {:.1f} %\n", title,
                  indent, outlook.schedule, counted(outlook.ranks, "rank", "ranks"),
                  counted(outlook.stage_count, "stage", "stages"),
                  counted(outlook.micros, "micro-batch", "micro-batches"),
                  100 * outlook.bubble_fraction, 100 * outlook.utilisation);
  std::vector<TextRow> rows = {{"pp", "ranks", "stages", "cost/mean", "layers"}};
  for (const int rank : first_and_last(outlook.ranks, kMostRanks))
    rows.push_back(row_of(outlook, rank));
  return text + aligned(rows, std::string(indent, ' '), Align::Left);
}

}  // namespace sextant
