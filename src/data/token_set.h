#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/tokens.h"

namespace sextant {

// Token files (shards) as one sequence, in order. Reading is const and thread-safe.
class TokenSet {
 public:
  TokenSet(std::string name, std::vector<TokenSource> shards);

  const std::string& name() const { return name_; }
  int64_t tokens() const { return starts_.back(); }
  const std::vector<TokenSource>& shards() const { return shards_; }

  // As those of TokenSource, with positions over all shards. A shard starts a document.
  void read(std::span<int32_t> out, int64_t begin, int64_t limit) const;
  void read_mask(std::span<uint8_t> out, int64_t begin) const;
  void document_starts(std::vector<int64_t>& out, std::vector<int32_t>& scratch, int64_t begin,
                       int64_t end) const;

 private:
  // Calls `visit(shard, first token in the shard, count)` for the parts of [begin, end).
  template <class Visit>
  void for_parts(int64_t begin, int64_t end, const Visit& visit) const;

  std::string name_;
  std::vector<TokenSource> shards_;
  std::vector<int64_t> starts_;  // first token of each shard, then the number of all
};

enum class Content { Tokens, Text };

// The files that `path` names: a file, a pattern with * ? [ ] in any part of it, or a directory,
// whose files are taken without hidden ones, *.tmp and those of a tokenizer, and of token files
// without *.idx, *.json and *.md. Sorted by name. Error(Data) when there are none.
std::vector<std::string> matching_files(Storage& storage, const std::string& path, Content content);

// Opens them all.
TokenSet open_tokens(Storage& storage, const std::string& path, TokenFormat format);

// One source of a blend.
struct BlendPart {
  double weight = 1;
  std::string path;
};

// "0.7 web/*.tokens, 0.3 code": a weight and a path each. Error(Config).
std::vector<BlendPart> parse_blend(const std::string& text);

}  // namespace sextant
