#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/storage.h"

namespace sextant {

inline constexpr std::string_view kTokenizerJson = "tokenizer.json";

// A Hugging Face tokenizer as files: tokenizer.json first, then its companions (special tokens,
// chat template, the tokens that end a text, ...). Empty: none.
struct TokenizerFiles {
  struct File {
    std::string name, content;
    bool operator==(const File&) const = default;
  };
  std::vector<File> files;

  bool empty() const { return files.empty(); }
  const std::string& json() const { return files.front().content; }
  const File* find(std::string_view name) const;  // null when absent
  bool operator==(const TokenizerFiles&) const = default;
};

// Whether a file of this name is part of a tokenizer.
bool is_tokenizer_file(std::string_view name);

// `path`: a tokenizer.json, or a directory that holds one; its companions are read along. A file of
// another name comes without: its neighbours need not belong to it. Throws Error(Data).
TokenizerFiles read_tokenizer_files(Storage& storage, const std::string& path);

// Writes them into a directory, each atomically.
void write_tokenizer_files(Storage& storage, const std::string& directory,
                           const TokenizerFiles& tokenizer);

}  // namespace sextant
