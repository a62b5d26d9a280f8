#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/span_log.h"
#include "base/storage.h"
#include "sim/compare.h"
#include "sim/suggest_split.h"

namespace sextant::cli {

// The spans of a trace: of a file, or of a run's directory (trace.json, or trace-0.json and the
// others that the ranks of processes leave).
std::vector<Span> read_trace(Storage& storage, const std::string& path);

// `simulate --compare`, for people and for programs.
struct CompareReport {
  std::string trace;  // its path
  int pipelines = 1;  // in the run; the first is compared
  Comparison comparison;
  std::optional<SplitAdvice> advice = {};
};
std::string to_text(const CompareReport& report, const Schedule& schedule, int width);
nlohmann::ordered_json to_json(const CompareReport& report);

}  // namespace sextant::cli
