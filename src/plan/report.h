#pragma once
#include <optional>
#include <span>
#include <string>

#include "plan/evaluate.h"

namespace sextant {

// The accuracy of the planner on a table of runs as a Markdown page: figures against their targets,
// a table per source, the worst rows, the fitted constants with their ranges.
std::string accuracy_page(std::span<const PublishedRun> runs, const TableEvaluation& evaluation,
                          const LeftOut& left_out, const Constants& constants);

// Predicted against measured step time, both on logarithmic axes, coloured by repository or paper.
std::string accuracy_picture(std::span<const PublishedRun> runs, const TableEvaluation& evaluation);

}  // namespace sextant
