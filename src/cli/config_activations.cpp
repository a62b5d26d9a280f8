#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "cli/config_mesh.h"
#include "cli/print.h"
#include "cli/settings.h"
#include "train/activations.h"

namespace sextant::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostRanks = 1024;

enum class Tokens { All, Own };  // of a rank between tensor parallel regions

// The settings say whether a degree can be, so each is asked for as a user would.
Config with_degree(const Context& context, const std::string& path, int64_t degree, Tokens tokens,
                   Recompute recompute) {
  Context asked = context;
  asked.overrides.push_back(concat("memory.recompute=", name_of(recompute)));
  asked.overrides.push_back(concat("parallel.tp=", degree));
  asked.overrides.push_back(concat("parallel.sequence=", tokens == Tokens::Own ? "true" : "false"));
  for (const char* other : {"parallel.cp=1", "parallel.tp_overlap=false"})
    asked.overrides.emplace_back(other);  // what a layer keeps is the same
  return load_settings(asked, path).config;
}

std::vector<int64_t> degrees_of(const std::string& text, const Config& config) {
  std::vector<int64_t> degrees;
  if (text.empty()) degrees.push_back(config.parallel.tp);
  for (const std::string& entry : text.empty() ? std::vector<std::string>{} : split(text, ',')) {
    const std::optional<int64_t> degree = parse_int(entry);
    SXT_CHECK(degree && *degree >= 1 && *degree <= kMostRanks, Usage, "--tp '", entry,
              "': takes whole numbers from 1 to ", kMostRanks, ", such as 2,4,8");
    degrees.push_back(*degree);
  }
  return degrees;
}

Json table_json(const ActivationTable& table) {
  Json terms = Json::array();
  for (const ActivationTerm& term : table.terms)
    terms.push_back({{"layer", term.layer == LayerKind::Attention ? "attention" : "mlp"},
                     {"tensor", term.tensor},
                     {"formula", term.formula},
                     {"published", term.published},
                     {"by_structure", term.by_structure},
                     {"by_type", term.by_type},
                     {"kept", term.kept},
                     {"why", term.why}});
  return {{"layout", activation_layout(table)},
          {"recompute", name_of(table.recompute)},
          {"tp", table.tensor.degree},
          {"sequence", table.tensor.sequence},
          {"formula", table.formula},
          {"published", table.published},
          {"by_structure", table.by_structure},
          {"by_type", table.by_type},
          {"kept", table.kept},
          {"extra_flops", table.extra_flops},
          {"terms", terms}};
}

std::string sizes_text(const Config& config, int64_t element_size) {
  const ModelConfig& model = config.model;
  return concat("s = ", model.seq, " tokens, b = ", config.batch.micro, ", h = ", model.hidden,
                ", a = ", model.heads, " heads, ffn = ", model.ffn, "; published in elements of 2 ",
                "bytes, kept in ", element_size);
}

}  // namespace

void show_activations(Context& context, const std::string& path, const std::string& degrees) {
  const Config config = load_settings(context, path).config;
  std::vector<ActivationTable> tables;
  const auto add = [&](int64_t degree, Tokens tokens) {
    for (const Recompute recompute :
         {Recompute::None, Recompute::Cheap, Recompute::Selective, Recompute::Full})
      tables.push_back(activation_table(with_degree(context, path, degree, tokens, recompute)));
  };
  add(1, Tokens::All);
  for (const int64_t degree : degrees_of(degrees, config))
    for (const Tokens tokens : {Tokens::All, Tokens::Own})
      if (degree > 1) add(degree, tokens);
  const int64_t element_size = tables.front().element_size;
  std::vector<std::string> notes = formula_notes(config.model);
  if (config.parallel.cp > 1)
    notes.push_back(concat("of whole sequences, without parallel.cp = ", config.parallel.cp));
  if (!context.json) {
    print_line(sizes_text(config, element_size));
    for (const std::string& note : notes) print_line(note);
    print("\n" + activations_text(tables));
    return;
  }
  Json rows = Json::array();
  for (const ActivationTable& table : tables) rows.push_back(table_json(table));
  print_json({{"seq", config.model.seq},
              {"micro", config.batch.micro},
              {"hidden", config.model.hidden},
              {"heads", config.model.heads},
              {"element_size", element_size},
              {"notes", notes},
              {"rows", rows}});
}

}  // namespace sextant::cli
