#include "config/load.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/parse.h"
#include "config/keys.h"
#include "config/resolve.h"
#include "config/toml_text.h"

namespace sextant {
namespace {

constexpr size_t kMaxFiles = 16;  // in one chain of `extends`
constexpr int64_t kSchema = 1;

// Checks the value against its key alone, then keeps it.
void keep(Settings& settings, const Key& key, const Value& value, const std::string& origin) {
  Config scratch;
  const std::string problem = key.set(scratch, value);
  SXT_CHECK(problem.empty(), Config, origin, ": ", bad_value(key, value, problem));
  settings.set(key.name, {value, origin});
}

bool is_section(const std::string& name) {
  return std::ranges::any_of(config_keys(),
                             [&](const Key& key) { return key.name.starts_with(name + "."); });
}

void keep_entry(Settings& settings, const TomlEntry& entry, const std::string& origin) {
  if (entry.kind == "an empty table" && is_section(entry.key)) return;
  const Key* key = find_key(entry.key);
  if (key == nullptr && is_section(entry.key))
    SXT_FAIL(Config, origin, ": ", entry.key, " is a section, written [", entry.key, "], not ",
             entry.kind);
  SXT_CHECK(key != nullptr, Config, origin, ": ", unknown_key(entry.key));
  SXT_CHECK(entry.value, Config, origin, ": ", key->name, " is ", entry.kind, ", it takes ",
            key->accepts);
  keep(settings, *key, *entry.value, origin);
}

// Keeps all settings of one text; returns what it extends, or "".
std::string keep_text(Settings& settings, const std::string& text, const std::string& name) {
  std::string extends;
  for (const TomlEntry& entry : read_toml(text, name)) {
    const std::string origin = concat(name, ":", entry.line);
    if (entry.key == "schema") {
      SXT_CHECK(entry.value == Value(kSchema), Config, origin, ": schema is ",
                entry.value ? to_short_text(*entry.value) : entry.kind, ", this build reads ",
                kSchema);
    } else if (entry.key == "extends") {
      const std::string* file = entry.value ? std::get_if<std::string>(&*entry.value) : nullptr;
      SXT_CHECK(file != nullptr && !file->empty(), Config, origin, ": extends is ",
                entry.value ? to_short_text(*entry.value) : entry.kind, ", it takes a file name");
      extends = *file;
    } else {
      keep_entry(settings, entry, origin);
    }
  }
  return extends;
}

// A file's own settings win over those of the file it extends.
void keep_file(Settings& settings, Storage& storage, const std::string& path,
               std::vector<std::string>& chain) {
  const std::string normal = std::filesystem::path(path).lexically_normal().string();
  SXT_CHECK(std::ranges::find(chain, normal) == chain.end(), Config, chain.back(), ": extends ",
            normal, ", which extends it in turn");
  SXT_CHECK(chain.size() < kMaxFiles, Config, chain.back(), ": extends ", normal,
            ", a chain of more than ", kMaxFiles, " files");
  const std::string from = chain.empty() ? "" : chain.back() + ": extends: ";
  SXT_CHECK(storage.exists(path), Config, from, "cannot read ", path, ": no such file",
            storage.exists(path + ".toml") ? concat(", did you mean '", path, ".toml'?") : "");
  SXT_CHECK(!storage.is_directory(path), Config, from, "cannot read ", path,
            ": a directory, not a TOML file",
            storage.exists(join_path(path, "config.toml"))
                ? concat("; ", path, "/config.toml is one")
                : "");
  chain.push_back(normal);
  Settings own;
  const std::string extends = keep_text(own, read_text(storage, path), path);
  if (!extends.empty()) keep_file(settings, storage, join_path(parent_path(path), extends), chain);
  settings.add(own);
}

void keep_overrides(Settings& settings, std::span<const std::string> overrides) {
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    SXT_CHECK(equals != std::string::npos, Config, "command line: '", text,
              "' is no override, it takes section.key=value");
    const std::string name = text.substr(0, equals);
    const Key* key = find_key(name);
    SXT_CHECK(key != nullptr, Config, "command line: ", unknown_key(name));
    keep(settings, *key, parse_value(*key, std::string_view(text).substr(equals + 1)),
         "command line");
  }
}

Settings read_settings(Storage& storage, const std::string& path,
                       std::span<const std::string> overrides) {
  Settings settings;
  std::vector<std::string> chain;
  if (!path.empty()) keep_file(settings, storage, path, chain);
  keep_overrides(settings, overrides);
  return settings;
}

}  // namespace

ResolvedConfig load_config(Storage& storage, const std::string& path,
                           std::span<const std::string> overrides, const LoadOptions& options) {
  return resolve(read_settings(storage, path, overrides), options);
}

std::string read_text_setting(Storage& storage, const std::string& path,
                              std::span<const std::string> overrides, const std::string& key) {
  const Settings settings = read_settings(storage, path, overrides);
  const Setting* setting = settings.find(key);
  return std::get<std::string>(setting ? setting->value : find_key(key)->get(Config{}));
}

ResolvedConfig parse_config(const std::string& text, const std::string& name,
                            std::span<const std::string> overrides, const LoadOptions& options) {
  Settings settings;
  const std::string extends = keep_text(settings, text, name);
  SXT_CHECK(extends.empty(), Config, name, ": extends ", extends,
            ", which only a configuration in a file can");
  keep_overrides(settings, overrides);
  return resolve(settings, options);
}

ResolvedConfig with_overrides(const ResolvedConfig& resolved,
                              std::span<const std::string> overrides) {
  Settings settings;
  for (const auto& [key, chosen] : resolved.chosen)
    settings.set(key, {chosen.first, chosen.second});
  keep_overrides(settings, overrides);
  LoadOptions options;
  options.read_hf = [&](const std::string&) { return resolved.config.model; };
  constexpr std::string_view kCheckpoint = "checkpoint ";
  if (const std::string& layers = resolved.origins.at("model.layers");
      layers.starts_with(kCheckpoint)) {
    options.start = resolved.config.model;
    options.start_name = layers.substr(kCheckpoint.size());
  }
  if (resolved.origins.at("model.vocab") == kTokenizerOrigin)
    options.read_vocab = [&](const DataConfig&) {
      return LoadOptions::Vocabulary{resolved.config.model.vocab, false};
    };
  return resolve(settings, options);
}

std::string to_toml(const Config& config) {
  std::string out = "schema = 1\n";
  std::string section;
  for (const Key& key : config_keys()) {
    const Value value = key.get(config);
    if (!key.applies(config) || value == Value(std::string())) continue;
    const size_t dot = key.name.find('.');
    if (key.name.substr(0, dot) != section) {
      section = key.name.substr(0, dot);
      out += "\n[" + section + "]\n";
    }
    out += key.name.substr(dot + 1) + " = " + to_text(value) + "\n";
  }
  return out;
}

}  // namespace sextant
