// JSON of what `config` reports; apart from show.cpp because its header is slow to compile.
#include <nlohmann/json.hpp>

#include "config/keys.h"
#include "config/model_presets.h"
#include "config/show.h"

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Value& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

// Names of files need not be UTF-8.
std::string one_line(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string show_json(const ResolvedConfig& resolved) {
  Json config = Json::object();
  for (const Key& key : config_keys()) {
    const size_t dot = key.name.find('.');
    config[key.name.substr(0, dot)][key.name.substr(dot + 1)] = json_of(key.get(resolved.config));
  }
  Json origins = Json::object();
  for (const Key& key : config_keys()) origins[key.name] = resolved.origins.at(key.name);
  return one_line({{"config", config}, {"origins", origins}, {"notes", resolved.notes}});
}

std::string diff_json(const std::vector<Difference>& differences) {
  Json rows = Json::array();
  for (const Difference& difference : differences)
    rows.push_back(
        {{"key", difference.key}, {"left", difference.left}, {"right", difference.right}});
  return one_line({{"differences", rows}});
}

std::string keys_json(std::span<const Key* const> keys) {
  Json rows = Json::array();
  for (const Key* key : keys)
    rows.push_back({{"name", key->name},
                    {"accepts", key->accepts},
                    {"choices", key->choices},
                    {"default", key->fallback},
                    {"when", key->when},
                    {"help", key->help}});
  return one_line({{"keys", rows}, {"presets", model_preset_names()}});
}

}  // namespace sextant
