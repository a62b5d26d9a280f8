#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/doctor.h"
#include "bench/mpi_peer.h"
#include "cli/command.h"
#include "cli/print.h"

namespace sextant::cli {
namespace {

std::string_view name_of(Health status) {
  switch (status) {
    case Health::Ok:
      return "ok";
    case Health::Warning:
      return "warning";
    case Health::Problem:
      return "problem";
  }
  return "?";
}

int run_doctor(const std::string& out, Context& context) {
  const std::vector<CheckUp> checks = examine(context.storage, context.clock, out, own_program());
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CheckUp& check : checks) {
    rows.push_back({{"name", check.name},
                    {"status", name_of(check.status)},
                    {"detail", check.detail},
                    {"fix", check.fix}});
    if (context.json) continue;
    print_line(fmt::format("{:<8} {:<12} {}", name_of(check.status), check.name, check.detail));
    if (!check.fix.empty()) print_line(fmt::format("{:<21} fix: {}", "", check.fix));
  }
  if (context.json) print_json(nlohmann::ordered_json{{"checks", rows}});
  const bool sick = std::any_of(checks.begin(), checks.end(), [](const CheckUp& check) {
    return check.status == Health::Problem;
  });
  return sick ? 1 : 0;
}

}  // namespace

Command doctor_command() {
  const auto out = std::make_shared<std::string>("out");
  return {"doctor",
          "Check this machine and the build, and suggest fixes",
          {{"--out", "Output directory to test", out.get()}},
          [out](Context& context) { return run_doctor(*out, context); }};
}

}  // namespace sextant::cli
