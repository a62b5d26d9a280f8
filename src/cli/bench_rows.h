#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "bench/picture.h"
#include "cli/command.h"

namespace sextant::cli {

using Json = nlohmann::ordered_json;

// Every row of a benchmark has these five; `more` adds what is special to it.
Json bench_row(const std::string& name, double value, const std::string& unit, double limit,
               const Json& more);

// --pictures DIR: a file for each, and its name as the result. Returns the exit code.
int write_pictures(Context& context, const std::string& directory,
                   std::span<const Picture> pictures);

// The benchmarks that have files of their own.
Command bench_step_command();
Command bench_collectives_command();
Command bench_scaling_command();
Command bench_pipeline_command();
Command bench_context_command();
Command bench_plan_command();
Command bench_calibrate_command();

}  // namespace sextant::cli
