#pragma once
#include <nlohmann/json_fwd.hpp>

#include "train/preflight_pipeline.h"

namespace sextant::cli {

// schedule, ranks, micros, bubble_fraction, utilisation, stages[] {stage rank layers cost}
nlohmann::ordered_json pipeline_json(const PipelineOutlook& outlook);

}  // namespace sextant::cli
