#include "config/show.h"

#include <algorithm>

#include "base/columns.h"
#include "base/error.h"
#include "base/parse.h"
#include "config/keys.h"
#include "config/model_presets.h"

namespace sextant {
namespace {

struct Name {
  std::string section, key;
};

Name split_name(const std::string& name) {
  const size_t dot = name.find('.');
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, width_of(text)), ' ');
}

std::string wrapped(std::string_view text, size_t width, const std::string& indent) {
  std::string out, line;
  for (const std::string& word : split(text, ' ')) {
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      out += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + indent + line + "\n";
}

// A table of Markdown ends its cells with a bar.
std::string cell(const std::string& text) {
  std::string out;
  for (const char ch : text) out += ch == '|' ? std::string("\\|") : std::string(1, ch);
  return out;
}

std::string preset_row(const std::string& name) {
  const ModelConfig model = model_preset(name).value();
  Config config;
  config.model = model;
  const std::string family = std::get<std::string>(find_key("model.family")->get(config));
  return concat("| `", name, "` | ", family, " | ", model.layers, " | ", model.hidden, " | ",
                model.heads, " / ", model.kv_heads, " | ", model.head_dim, " | ",
                model.ffn > 0 ? model.ffn : model.expert_ffn, " | ", model.vocab, " | ", model.seq,
                " | ", model.tied ? "yes" : "no", " |\n");
}

constexpr const char* kMarkdownHead =
    "# Configuration keys\n\n"
    "Made by `sextant config keys --markdown`; do not edit.\n\n"
    "A run is one TOML file, with `schema = 1` at its head if you like. `extends = \"base.toml\"` "
    "(relative to the file) takes the settings of another file first. On the command line "
    "`--section.key=value` has the last word; text needs no quotes there. `sextant config show` "
    "prints the value of every key and where it came from.\n"
    "Paths are relative to the directory in which the command runs.\n";

}  // namespace

std::string show_text(const ResolvedConfig& resolved) {
  size_t key_width = 0, value_width = 0;
  for (const Key& key : config_keys()) {
    key_width = std::max(key_width, split_name(key.name).key.size());
    value_width = std::max(value_width, width_of(to_text(key.get(resolved.config))));
  }
  value_width = std::min<size_t>(value_width, 40);
  std::string out, section;
  for (const Key& key : config_keys()) {
    const Name name = split_name(key.name);
    if (name.section != section) {
      out += (section.empty() ? "[" : "\n[") + name.section + "]\n";
      section = name.section;
    }
    out += padded(name.key, key_width) + " = " +
           padded(to_text(key.get(resolved.config)), value_width) + "  # " +
           resolved.origins.at(key.name) + "\n";
  }
  if (!resolved.notes.empty()) out += "\n";
  for (const std::string& note : resolved.notes) out += "# " + note + "\n";
  return out;
}

std::vector<Difference> diff_configs(const Config& left, const Config& right) {
  std::vector<Difference> out;
  for (const Key& key : config_keys()) {
    const Value a = key.get(left), b = key.get(right);
    if (a != b) out.push_back({key.name, to_text(a), to_text(b)});
  }
  return out;
}

std::string diff_text(const std::vector<Difference>& differences) {
  if (differences.empty()) return "no difference\n";
  size_t key_width = 0, left_width = 0;
  for (const Difference& difference : differences) {
    key_width = std::max(key_width, difference.key.size());
    left_width = std::max(left_width, width_of(difference.left));
  }
  std::string out;
  for (const Difference& difference : differences)
    out += padded(difference.key, key_width) + "  " + padded(difference.left, left_width) + " -> " +
           difference.right + "\n";
  return out;
}

std::vector<const Key*> keys_about(std::string_view word) {
  const std::string meant = key_meant_by(word);
  std::vector<const Key*> found;
  for (const Key& key : config_keys())
    if (key.name == meant || key.name.find(word) != std::string::npos ||
        key.help.find(word) != std::string::npos)
      found.push_back(&key);
  return found;
}

std::string keys_text(std::span<const Key* const> keys) {
  std::string out;
  for (const Key* key : keys) {
    out += key->name + "  (" + key->accepts + "; default " + key->fallback + ")\n";
    out += wrapped(key->when.empty() ? key->help : key->help + "; needs " + key->when, 74, "    ");
  }
  return out;
}

std::string keys_text() {
  return keys_text(keys_about("")) + "\npresets of model.preset:\n" +
         wrapped(join(model_preset_names(), ", "), 76, "  ");
}

std::string keys_markdown() {
  std::string out = kMarkdownHead, section;
  for (const Key& key : config_keys()) {
    const Name name = split_name(key.name);
    if (name.section != section) {
      section = name.section;
      out += "\n## [" + section + "]\n\n| key | takes | default | meaning |\n|---|---|---|---|\n";
    }
    const std::string meaning =
        key.when.empty() ? key.help : key.help + " (needs " + key.when + ")";
    out += "| `" + name.key + "` | " + cell(key.accepts) + " | " + cell(key.fallback) + " | " +
           cell(meaning) + " |\n";
  }
  out +=
      "\n## Presets\n\nThe values of `model.preset`, with published sizes; `seq` is the length "
      "that most of their training used.\n\n"
      "| preset | family | layers | hidden | heads / kv | head_dim | ffn | vocab | seq | tied |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const std::string& name : model_preset_names()) out += preset_row(name);
  return out;
}

}  // namespace sextant
