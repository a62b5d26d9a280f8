#include "cli/config_models.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "blueprint/blueprint.h"
#include "cli/print.h"
#include "cli/values.h"
#include "config/model_presets.h"
#include "config/other_names.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWeightBytes = 2, kStateBytes = 16;  // of a parameter

// Within 80 columns.
constexpr char kRow[] = "{:<16}{:>10}{:>9}{:>8}{:>12}{:>12}{:>12}\n";

// A preset and its size.
struct Row {
  std::string name;
  ModelConfig model;
  double parameters = 0, active = 0, flops = 0;  // FLOPs of a trained token
};

// `chosen`: experts of a token; 0: those of the preset.
Row row_of(const std::string& name, int64_t chosen) {
  ModelConfig model = model_preset(name).value();
  if (chosen > 0) {
    SXT_CHECK(chosen <= model.experts, Usage, "--experts-per-token ", chosen, ": ", name, " has ",
              model.experts, " experts");
    model.experts_per_token = chosen;
  }
  const Blueprint blueprint = make_blueprint(model);
  return {name, model, static_cast<double>(blueprint.parameters()),
          static_cast<double>(blueprint.active_parameters()), blueprint.flops_per_token(model.seq)};
}

Json to_json(const Row& row) {
  return {{"name", row.name},
          {"family", name_of(row.model.family)},
          {"parameters", static_cast<int64_t>(row.parameters)},
          {"active_parameters", static_cast<int64_t>(row.active)},
          {"experts_per_token", row.model.experts_per_token},
          {"seq", row.model.seq},
          {"flops_per_token", row.flops},
          {"weight_bytes", static_cast<int64_t>(kWeightBytes * row.parameters)},
          {"state_bytes", static_cast<int64_t>(kStateBytes * row.parameters)}};
}

std::string to_text(const std::vector<Row>& rows) {
  std::string text =
      fmt::format(kRow, "preset", "parameters", "active", "seq", "FLOPs/token", "weights", "state");
  for (const Row& row : rows)
    text += fmt::format(kRow, row.name, format_count(row.parameters), format_count(row.active),
                        row.model.seq, format_count(row.flops),
                        format_bytes(static_cast<int64_t>(kWeightBytes * row.parameters)),
                        format_bytes(static_cast<int64_t>(kStateBytes * row.parameters)));
  return text +
         "FLOPs to train a token follow the active parameters, bytes all of them: weights\n"
         "of 2 bytes, state of 16 (weights, gradients, master weights and moments)\n";
}

}  // namespace

Command models_command() {
  const auto names = std::make_shared<std::vector<std::string>>();
  const auto chosen = std::make_shared<int64_t>(0);
  return {"models",
          "Model presets: parameters, FLOPs of a token, bytes of weights and training state",
          {{.names = "preset",
            .help = "Presets to show; all when none is given",
            .target = names.get(),
            .values = preset_values()},
           {.names = "--experts-per-token",
            .help = "The presets with so many experts of each token instead",
            .target = chosen.get()}},
          [names, chosen](Context& context) {
            SXT_CHECK(*chosen == 0 || !names->empty(), Usage,
                      "--experts-per-token needs the names of presets with experts");
            std::vector<Row> rows;
            for (const std::string& name : names->empty() ? model_preset_names() : *names) {
              SXT_CHECK(model_preset(name), Usage, name,
                        ": no preset is called so; `sextant config models` lists them",
                        did_you_mean_preset(name));
              rows.push_back(row_of(name, *chosen));
            }
            Json json = Json::array();
            for (const Row& row : rows) json.push_back(to_json(row));
            if (context.json)
              print_json({{"models", json}});
            else
              print(to_text(rows));
            return 0;
          }};
}

}  // namespace sextant::cli
