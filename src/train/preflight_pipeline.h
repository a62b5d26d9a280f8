#pragma once
#include <string>
#include <vector>

#include "config/config.h"
#include "program/rank_part.h"

namespace sextant {

// A pipeline before a run: the layers of each rank, and the expected bubble at the blueprint's
// estimated costs.
struct PipelineOutlook {
  struct Stage {
    int stage = 0;
    int rank = 0;        // in the pipeline
    std::string layers;  // "embedding, layers 0-1"
    double cost = 0;     // forward and backward of a micro-batch, relative to the mean stage
  };
  std::string schedule;
  int ranks = 1, micros = 1;
  int data_ranks = 1;          // per pipeline rank
  int stage_count = 1;         // of the model; two copies count once
  std::vector<Stage> stages;   // by stage, then by rank
  double bubble_fraction = 0;  // as in `sextant simulate`, without message time
  double utilisation = 1;
};

PipelineOutlook pipeline_outlook(const Blueprint& blueprint, const Pipeline& pipeline,
                                 const ParallelConfig& parallel);
// For a configuration without a pipeline yet.
PipelineOutlook pipeline_outlook(const Config& config);

// A header line, then one line per pipeline rank; middle ranks are left out when there are many.
// Lines are indented by `indent` columns; the first line has `title` there.
std::string pipeline_text(const PipelineOutlook& outlook, const std::string& title, size_t indent);

}  // namespace sextant
