#include "cli/simulate_arguments.h"

#include <limits>
#include <optional>

#include "base/error.h"
#include "base/parse.h"

namespace sextant::cli {
namespace {

int parse_count(const char* option, const std::string& text, int otherwise) {
  if (text.empty()) return otherwise;
  const std::optional<int64_t> value = parse_int(text);
  SXT_CHECK(value && *value >= 1 && *value <= std::numeric_limits<int32_t>::max(), Usage, option,
            " ", text, ": takes a whole number from 1 to ", std::numeric_limits<int32_t>::max());
  return static_cast<int>(*value);
}

std::vector<StageCost> parse_times(const std::string& text) {
  std::vector<StageCost> stages;
  if (text.empty()) return {{1, 1, 1}};
  for (const std::string& stage : split(text, '/')) {
    const std::vector<std::string> parts = split(stage, ',');
    SXT_CHECK(parts.size() == 3, Usage, "--times ", text, ": '", stage,
              "' is not the times of F, B and W, such as 1,1,1; for each stage its own: "
              "1,1,1/2,2,2");
    for (const std::string& part : parts)
      SXT_CHECK(!part.empty(), Usage, "--times ", text, ": a time is missing in '", stage, "'");
    StageCost cost;
    cost.forward_time = parse_time("--times", parts[0]);
    cost.input_grad_time = parse_time("--times", parts[1]);
    cost.weight_grad_time = parse_time("--times", parts[2]);
    stages.push_back(cost);
  }
  return stages;
}

double parse_limit(const SimulateArguments& arguments) {
  if (arguments.memory_limit.empty()) return 0;
  const bool is_bytes = !arguments.memory.empty();
  const std::optional<int64_t> bytes = parse_bytes(arguments.memory_limit);
  const std::optional<double> count = parse_double(arguments.memory_limit);
  const double limit = is_bytes ? static_cast<double>(bytes.value_or(0)) : count.value_or(0);
  SXT_CHECK(limit > 0, Usage, "--memory-limit ", arguments.memory_limit,
            is_bytes ? ": takes bytes, such as 24GiB"
                     : ": takes the forwards that a rank may hold, or bytes with --memory");
  return limit;
}

}  // namespace

double parse_time(const char* option, const std::string& text) {
  if (text.empty()) return 0;
  const std::optional<double> value = parse_double(text);
  constexpr double kLongest = 1e15;  // sums of such times stay finite
  SXT_CHECK(value && *value >= 0 && *value <= kLongest, Usage, option, " ", text,
            ": takes a number from 0 to ", kLongest);
  return *value;
}

double parse_share(const char* option, const std::string& text) {
  const bool is_percent = text.ends_with('%');
  const std::optional<double> value =
      parse_double(is_percent ? text.substr(0, text.size() - 1) : text);
  const double share = value.value_or(-1) / (is_percent ? 100 : 1);
  SXT_CHECK(share >= 0 && share < 1, Usage, option, " ", text,
            ": takes a share of the time from 0 to below 1, such as 5% or 0.05");
  return share;
}

void set_memory(std::vector<StageCost>& stages, const std::string& text) {
  const std::vector<std::string> parts = split(text, ',');
  const std::optional<int64_t> held = parse_bytes(parts[0]),
                               kept = parts.size() == 2 ? parse_bytes(parts[1]) : std::nullopt;
  SXT_CHECK(held && kept && *held > 0 && *kept >= 0 && *kept <= *held, Usage, "--memory ", text,
            ": takes what a forward holds and what of it the weight gradient needs, such as "
            "34MiB,32MiB");
  for (StageCost& cost : stages) {
    cost.activation_memory = static_cast<double>(*held);
    cost.memory_for_weight_grad = static_cast<double>(*kept);
  }
}

ScheduleRequest request_of(const SimulateArguments& arguments) {
  ScheduleRequest request;
  request.name = arguments.schedule.empty() ? "1f1b" : arguments.schedule;
  request.ranks = parse_count("--stages", arguments.stages, 4);
  request.micros = parse_count("--micros", arguments.micros, 8);
  request.chunks = parse_count("--chunks", arguments.chunks, 1);
  request.micro_group = parse_count("--group", arguments.group, 0);
  request.costs = parse_times(arguments.times);
  if (!arguments.memory.empty()) set_memory(request.costs, arguments.memory);
  request.message_time = parse_time("--comm", arguments.comm);
  request.memory_limit = parse_limit(arguments);
  return request;
}

void refuse_options(std::initializer_list<GivenOption> options, const std::string& because) {
  for (const GivenOption& option : options)
    SXT_CHECK(option.text.empty(), Usage, because, ", leave out ", option.name, " ", option.text);
}

}  // namespace sextant::cli
