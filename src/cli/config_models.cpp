#include "cli/config_models.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/parse.h"
#include "blueprint/blueprint.h"
#include "cli/print.h"
#include "config/model_presets.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWeightBytes = 2, kStateBytes = 16;  // of a parameter

// A preset and its size.
struct Row {
  std::string name;
  ModelConfig model;
  double parameters = 0, active = 0, flops = 0;  // FLOPs of a trained token
};

Row row_of(const std::string& name) {
  const ModelConfig model = model_preset(name).value();
  const Blueprint blueprint = make_blueprint(model);
  return {name, model, static_cast<double>(blueprint.parameters()),
          static_cast<double>(blueprint.active_parameters()), blueprint.flops_per_token(model.seq)};
}

Json to_json(const Row& row) {
  return {{"name", row.name},
          {"family", name_of(row.model.family)},
          {"parameters", static_cast<int64_t>(row.parameters)},
          {"active_parameters", static_cast<int64_t>(row.active)},
          {"seq", row.model.seq},
          {"flops_per_token", row.flops},
          {"weight_bytes", static_cast<int64_t>(kWeightBytes * row.parameters)},
          {"state_bytes", static_cast<int64_t>(kStateBytes * row.parameters)}};
}

std::string to_text(const std::vector<Row>& rows) {
  std::string text = fmt::format("{:<16} {:>10} {:>10} {:>7} {:>12} {:>12} {:>12}\n", "preset",
                                 "parameters", "active", "seq", "FLOPs/token", "weights", "state");
  for (const Row& row : rows)
    text += fmt::format("{:<16} {:>10} {:>10} {:>7} {:>12} {:>12} {:>12}\n", row.name,
                        format_count(row.parameters), format_count(row.active), row.model.seq,
                        format_count(row.flops),
                        format_bytes(static_cast<int64_t>(kWeightBytes * row.parameters)),
                        format_bytes(static_cast<int64_t>(kStateBytes * row.parameters)));
  return text +
         "FLOPs to train a token follow the active parameters, bytes all of them: weights of 2 "
         "bytes,\nstate of 16 (weights, gradients, master weights and moments)\n";
}

}  // namespace

Command models_command() {
  const auto names = std::make_shared<std::vector<std::string>>();
  return {"models",
          "Model presets: parameters, FLOPs of a token, bytes of weights and training state",
          {{"preset", "Presets to show; all when none is given", names.get(),
            Option::Need::Optional, model_preset_names()}},
          [names](Context& context) {
            std::vector<Row> rows;
            for (const std::string& name : names->empty() ? model_preset_names() : *names)
              rows.push_back(row_of(name));
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
