#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "program/rank_part.h"

namespace sextant {

// A pipeline as it is shown before a run: which rank holds what, and what the schedule is expected
// to waste at the costs that the blueprint estimates.
struct PipelineOutlook {
  struct Stage {
    int stage = 0;
    int rank = 0;        // in the pipeline
    std::string layers;  // "embedding, layers 0-1"
    double cost = 0;     // of a micro-batch there and back, the mean of all stages being 1
  };
  std::string schedule;
  int ranks = 1, micros = 1;
  int data_ranks = 1;          // that each rank of the pipeline stands for
  int stage_count = 1;         // of the model; two copies of one count once
  std::vector<Stage> stages;   // by stage, then by rank
  double bubble_fraction = 0;  // as `sextant simulate` tells it, messages taking no time
  double utilisation = 1;
};

PipelineOutlook pipeline_outlook(const Blueprint& blueprint, const Pipeline& pipeline,
                                 const ParallelConfig& parallel);
// For a configuration whose pipeline nobody has made yet.
PipelineOutlook pipeline_outlook(const Config& config);

// A head line, then a line for each rank of the pipeline; those in the middle of many are left out.
// Lines begin with `indent` columns, of which the first line's hold `title`.
std::string pipeline_text(const PipelineOutlook& outlook, const std::string& title, size_t indent);

}  // namespace sextant
