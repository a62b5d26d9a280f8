#include "cli/pipeline_json.h"

#include <nlohmann/json.hpp>

namespace sextant::cli {

nlohmann::ordered_json pipeline_json(const PipelineOutlook& outlook) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const PipelineOutlook::Stage& stage : outlook.stages)
    stages.push_back({{"stage", stage.stage},
                      {"rank", stage.rank},
                      {"layers", stage.layers},
                      {"cost", stage.cost}});
  return {{"schedule", outlook.schedule},       {"ranks", outlook.ranks},
          {"micros", outlook.micros},           {"bubble_fraction", outlook.bubble_fraction},
          {"utilisation", outlook.utilisation}, {"stages", stages}};
}

}  // namespace sextant::cli
