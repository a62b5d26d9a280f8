#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/storage.h"
#include "config/config.h"
#include "config/value.h"

namespace sextant {

// Where a value came from, for `config show`: "default", "preset gpt2-s", "run.toml:12",
// "command line", "derived", "hf DIR".
using Origins = std::map<std::string, std::string>;  // key "section.name" -> origin

struct ResolvedConfig {
  Config config;
  Origins origins;                 // of every key
  std::vector<std::string> notes;  // one line each: inferred values, the batch equation
  // What files and overrides set, also where it has no effect: key -> value and origin.
  std::map<std::string, std::pair<Value, std::string>> chosen = {};
};

struct LoadOptions {
  // Reads the sizes of model.hf; asked only when the file does not give all of them. Without it
  // such a configuration is refused.
  std::function<ModelConfig(const std::string& directory)> read_hf;
  // The model of the weights that a run starts from, where neither model.preset nor model.hf is
  // set; `start_name` for messages.
  std::optional<ModelConfig> start = {};
  std::string start_name = {};
  // Reads the vocabulary of the data; asked only when nobody set model.vocab. `ids` 0: unknown.
  struct Vocabulary {
    int64_t ids = 0;
    bool is_bytes = false;
    std::string problem = {};  // why they are unknown, where there is a reason
  };
  std::function<Vocabulary(const DataConfig& data)> read_vocab = {};
};

// Reads `path` ("" for none), the files it extends, then overrides ("section.key=value"; a string
// needs no quotes), fills presets and derived values, checks everything. Throws Error (Config or
// Data) whose one line has file, line, the value and what would be right.
// A setting that has no effect beside the others is set back to its default, with a note.
ResolvedConfig load_config(Storage& storage, const std::string& path,
                           std::span<const std::string> overrides, const LoadOptions& options = {});

// The same for a TOML text that is already in memory and extends no file; `name` stands for the
// file in messages.
ResolvedConfig parse_config(const std::string& text, const std::string& name,
                            std::span<const std::string> overrides,
                            const LoadOptions& options = {});

// The same settings with more overrides, as if they had stood on the command line, too.
ResolvedConfig with_overrides(const ResolvedConfig& resolved,
                              std::span<const std::string> overrides);

// The layout that `text` names for the model of `config`: keys of [parallel] without their section,
// such as "dp=4,zero=1"; what is not named is as when nobody set it. `origin` stands before the
// text in messages.
ParallelConfig parse_layout(const Config& config, const std::string& text,
                            const std::string& origin);

// The value of a text key as `path` and the overrides set it, or its default: for what must be
// known before the model is.
std::string read_text_setting(Storage& storage, const std::string& path,
                              std::span<const std::string> overrides, const std::string& key);

// TOML that load_config reads back to the same Config, without asking for model.hf again.
std::string to_toml(const Config& config);

}  // namespace sextant
