#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/command.h"

namespace sextant::cli {

using Json = nlohmann::ordered_json;

// Every row of a benchmark has these five; `more` adds what is special to it.
Json bench_row(const std::string& name, double value, const std::string& unit, double limit,
               const Json& more);

// The benchmarks that have files of their own.
Command bench_collectives_command();
Command bench_scaling_command();
Command bench_pipeline_command();

}  // namespace sextant::cli
