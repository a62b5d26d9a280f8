#include "formats/tokenizer_files.h"

#include <algorithm>
#include <filesystem>

namespace sextant {
namespace {

constexpr std::string_view kCompanions[] = {"tokenizer_config.json",
                                            "special_tokens_map.json",
                                            "added_tokens.json",
                                            "vocab.json",
                                            "merges.txt",
                                            "tokenizer.model",
                                            "chat_template.jinja",
                                            "generation_config.json"};

}  // namespace

const TokenizerFiles::File* TokenizerFiles::find(std::string_view name) const {
  const auto found = std::ranges::find(files, name, &File::name);
  return found == files.end() ? nullptr : &*found;
}

bool is_tokenizer_file(std::string_view name) {
  return name == kTokenizerJson || std::ranges::find(kCompanions, name) != std::end(kCompanions);
}

TokenizerFiles read_tokenizer_files(Storage& storage, const std::string& path) {
  const std::string json = storage.is_directory(path) ? join_path(path, kTokenizerJson) : path;
  TokenizerFiles out;
  out.files.push_back({std::string(kTokenizerJson), read_text(storage, json)});
  if (std::filesystem::path(json).filename() != kTokenizerJson) return out;
  for (const std::string_view name : kCompanions) {
    const std::string file = join_path(parent_path(json), name);
    if (storage.exists(file) && !storage.is_directory(file))
      out.files.push_back({std::string(name), read_text(storage, file)});
  }
  return out;
}

void write_tokenizer_files(Storage& storage, const std::string& directory,
                           const TokenizerFiles& tokenizer) {
  for (const TokenizerFiles::File& file : tokenizer.files)
    replace_file(storage, join_path(directory, file.name), file.content);
}

}  // namespace sextant
