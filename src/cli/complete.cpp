#include "cli/complete.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/parse.h"
#include "config/keys.h"

namespace sextant::cli {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kColours[] = {"auto", "always", "never"};

bool is_flag(const Option& option) {
  return std::holds_alternative<bool*>(option.target);
}

// --resume alone is a value; it takes others as --resume=value only.
bool takes_next_word(const Option& option) {
  return !is_flag(option) && option.alone.empty();
}

bool is_number(const Option& option) {
  return std::holds_alternative<int64_t*>(option.target) ||
         std::holds_alternative<double*>(option.target);
}

bool is_positional(const Option& option) {
  return !option.names.starts_with("-");
}

const Option* find_option(const Command& command, std::string_view name) {
  for (const Option& option : command.options)
    for (const std::string& one : split(option.names, ','))
      if (one == name) return &option;
  return nullptr;
}

// Names in the directory of an unfinished path; directories end with "/".
Words files(Storage& storage, const std::string& word, std::string_view ending) {
  const size_t slash = word.rfind('/');
  const std::string in = slash == std::string::npos ? "" : word.substr(0, slash + 1);
  const std::string begin = word.substr(in.size());
  Words out;
  try {
    for (const std::string& name : storage.list(in.empty() ? "." : in)) {
      if (!name.starts_with(begin) || (name.starts_with('.') && begin.empty())) continue;
      if (storage.is_directory(in + name))
        out.push_back(in + name + "/");
      else if (name.ends_with(ending))
        out.push_back(in + name);
    }
  } catch (const Error&) {  // a directory that is not there has no files
  }
  return out;
}

// The values of a setting, without its name.
Words values_of(Storage& storage, const Key& key, const std::string& word) {
  if (!key.choices.empty()) {
    Words out = key.choices;
    if (key.name == "parallel.schedule")
      for (const std::string& file : files(storage, word, ".csv")) out.push_back(file);
    return out;
  }
  if (key.type == ValueType::Bool) return {"true", "false"};
  if (key.type != ValueType::Text) return {};
  if (key.name == "parallel.split") return {"even", "balanced"};
  Words out = files(storage, word, "");
  if (key.name == "data.tokenizer") out.insert(out.begin(), "bytes");
  return out;
}

Words values_of(Storage& storage, const Option& option, const std::string& word) {
  if (!option.choices.empty()) return option.choices;
  if (option.values) return option.values(word);
  if (is_number(option)) return {};
  return files(storage, word, option.names.ends_with(".toml") ? ".toml" : "");
}

// Options and settings; settings by section first, there are many.
Words names(const Command& command, const std::string& word) {
  Words out;
  for (const Option& option : command.options)
    for (const std::string& name : split(option.names, ','))
      if (name.starts_with("--")) out.push_back(name);
  for (const char* name : {"--json", "--quiet", "--verbose", "--color", "--help"})
    out.emplace_back(name);
  if (command.name == "sextant") out.emplace_back("--version");
  if (command.accepts != Accepts::Overrides) return out;
  for (const std::string& key : key_names()) {
    const std::string section = "--" + key.substr(0, key.find('.') + 1);
    if (word.starts_with(section))
      out.push_back("--" + key + "=");
    else if (std::ranges::find(out, section) == out.end())
      out.push_back(section);
  }
  return out;
}

// Where the words before the last one lead.
struct Place {
  const Command* command;
  size_t positional = 0;           // of the command, given so far
  const Option* option = nullptr;  // whose value comes next
  const Key* key = nullptr;        // the same for a setting
  bool takes_colour = false;       // the same for --color
};

void pass(Place& place, const std::string& word) {
  if (place.option != nullptr || place.key != nullptr || place.takes_colour) {
    place = {place.command, place.positional};
    return;
  }
  if (word.starts_with("-")) {
    if (word.find('=') != std::string::npos) return;
    const Option* option = find_option(*place.command, word);
    if (option != nullptr && takes_next_word(*option)) place.option = option;
    if (place.command->accepts == Accepts::Overrides && word.starts_with("--"))
      place.key = find_key(word.substr(2));
    place.takes_colour = word == "--color";
    return;
  }
  for (const Command& sub : place.command->subcommands)
    if (sub.name == word) {
      place = {&sub};
      return;
    }
  ++place.positional;
}

Words with_prefix(const std::string& prefix, Words words) {
  for (std::string& word : words) word.insert(0, prefix);
  return words;
}

// Of --name=value, the values.
Words assigned(Storage& storage, const Command& command, const std::string& word) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
  const std::string prefix = name + "=";
  if (name == "--color") return with_prefix(prefix, {std::begin(kColours), std::end(kColours)});
  if (const Option* option = find_option(command, name); option != nullptr && !is_flag(*option))
    return with_prefix(prefix, values_of(storage, *option, value));
  if (const Key* key = find_key(name.substr(std::min<size_t>(2, name.size())));
      key != nullptr && command.accepts == Accepts::Overrides)
    return with_prefix(prefix, values_of(storage, *key, value));
  return {};
}

Words positional_values(Storage& storage, const Place& place, const std::string& word) {
  Words out;
  if (place.positional == 0)
    for (const Command& sub : place.command->subcommands) out.push_back(sub.name);
  size_t index = 0;
  for (const Option& option : place.command->options) {
    if (!is_positional(option)) continue;
    const bool repeats = std::holds_alternative<std::vector<std::string>*>(option.target);
    if (index++ == place.positional || (repeats && index <= place.positional)) {
      const Words values = values_of(storage, option, word);
      out.insert(out.end(), values.begin(), values.end());
      break;
    }
  }
  return out;
}

Words candidates(Storage& storage, const Place& place, const std::string& word) {
  if (place.takes_colour) return {std::begin(kColours), std::end(kColours)};
  if (place.option != nullptr) return values_of(storage, *place.option, word);
  if (place.key != nullptr) return values_of(storage, *place.key, word);
  if (!word.starts_with("-")) return positional_values(storage, place, word);
  return word.find('=') != std::string::npos ? assigned(storage, *place.command, word)
                                             : names(*place.command, word);
}

}  // namespace

std::vector<std::string> words_of(std::string_view line) {
  Words out = {""};
  char quote = 0;
  bool is_open = false;  // a word has begun
  for (size_t i = 0; i < line.size(); ++i) {
    const char ch = line[i];
    if (ch == '\\' && quote != '\'' && i + 1 < line.size()) {
      out.back() += line[++i];
    } else if (quote != 0 ? ch == quote : ch == '\'' || ch == '"') {
      quote = quote != 0 ? 0 : ch;
    } else if (ch == ' ' && quote == 0) {
      if (is_open) out.emplace_back();
      is_open = false;
      continue;
    } else {
      out.back() += ch;
    }
    is_open = true;
  }
  return out;
}

std::vector<std::string> complete(Storage& storage, std::string_view line) {
  const Words words = words_of(line);
  Command top{"sextant", ""};
  top.subcommands = all_commands();
  if (words.size() < 2) return {};
  Place place{&top};
  for (size_t i = 1; i + 1 < words.size(); ++i) pass(place, words[i]);
  Words out;
  for (std::string& candidate : candidates(storage, place, words.back()))
    if (candidate.starts_with(words.back()) && std::ranges::find(out, candidate) == out.end())
      out.push_back(std::move(candidate));
  return out;
}

}  // namespace sextant::cli
