#include "data/token_set.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/parse.h"
#include "formats/tokenizer_files.h"

namespace sextant {
namespace {

bool is_pattern(const std::string& text) {
  return text.find_first_of("*?[") != std::string::npos;
}

// Files beside the data that are none.
bool is_other_file(const std::string& name, Content content) {
  if (name.starts_with('.') || name.ends_with(".tmp")) return true;
  if (is_tokenizer_file(name)) return true;
  return content == Content::Tokens &&
         (name.ends_with(".idx") || name.ends_with(".json") || name.ends_with(".md"));
}

std::vector<std::string> directory_files(Storage& storage, const std::string& path,
                                         Content content) {
  std::vector<std::string> files;
  for (const std::string& name : storage.list(path)) {
    const std::string file = join_path(path, name);
    if (!is_other_file(name, content) && !storage.is_directory(file)) files.push_back(file);
  }
  return files;
}

// What a pattern matches, part by part of the path.
std::vector<std::string> expand(Storage& storage, const std::filesystem::path& pattern) {
  std::vector<std::string> found = {""};
  for (const std::filesystem::path& part : pattern) {
    std::vector<std::string> next;
    for (const std::string& before : found) {
      if (!is_pattern(part.string())) {
        const std::string path = join_path(before, part.string());
        if (storage.exists(path)) next.push_back(path);
        continue;
      }
      const std::string directory = before.empty() ? "." : before;
      if (!storage.is_directory(directory)) continue;
      for (const std::string& name : storage.list(directory))
        if (fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0)
          next.push_back(join_path(before, name));
    }
    found = std::move(next);
  }
  return found;
}

}  // namespace

TokenSet::TokenSet(std::string name, std::vector<TokenSource> shards)
    : name_(std::move(name)), shards_(std::move(shards)), starts_{0} {
  for (const TokenSource& shard : shards_) starts_.push_back(starts_.back() + shard.tokens());
}

template <class Visit>
void TokenSet::for_parts(int64_t begin, int64_t end, const Visit& visit) const {
  SXT_CHECK(begin >= 0 && end <= tokens(), Internal, name_, ": tokens ", begin, " to ", end, " of ",
            tokens());
  auto shard = static_cast<size_t>(std::ranges::upper_bound(starts_, begin) - starts_.begin()) - 1;
  for (int64_t at = begin; at < end; ++shard) {
    const int64_t stop = std::min(end, starts_[shard + 1]);
    if (stop > at) visit(shard, at - starts_[shard], stop - at);
    at = std::max(at, stop);
  }
}

void TokenSet::read(std::span<int32_t> out, int64_t begin, int64_t limit) const {
  size_t done = 0;
  for_parts(begin, begin + static_cast<int64_t>(out.size()),
            [&](size_t shard, int64_t first, int64_t count) {
              const auto size = static_cast<size_t>(count);
              shards_[shard].read(out.subspan(done, size), first, limit);
              done += size;
            });
}

void TokenSet::read_mask(std::span<uint8_t> out, int64_t begin) const {
  size_t done = 0;
  for_parts(begin, begin + static_cast<int64_t>(out.size()),
            [&](size_t shard, int64_t first, int64_t count) {
              const auto size = static_cast<size_t>(count);
              shards_[shard].read_mask(out.subspan(done, size), first);
              done += size;
            });
}

void TokenSet::document_starts(std::vector<int64_t>& out, std::vector<int32_t>& scratch,
                               int64_t begin, int64_t end) const {
  for_parts(begin, end, [&](size_t shard, int64_t first, int64_t count) {
    const size_t before = out.size();
    shards_[shard].document_starts(out, scratch, first, first + count);
    for (size_t i = before; i < out.size(); ++i) out[i] += starts_[shard];
  });
}

std::vector<std::string> matching_files(Storage& storage, const std::string& path,
                                        Content content) {
  if (storage.is_directory(path)) {
    std::vector<std::string> files = directory_files(storage, path, content);
    SXT_CHECK(!files.empty(), Data, path, ": the directory holds no data files");
    return files;
  }
  if (storage.exists(path) || !is_pattern(path)) return {path};
  std::vector<std::string> files;
  for (const std::string& found : expand(storage, std::filesystem::path(path))) {
    const bool is_part =
        found.ends_with(".tmp") || (content == Content::Tokens && found.ends_with(".idx"));
    if (!is_part && !storage.is_directory(found)) files.push_back(found);
  }
  SXT_CHECK(!files.empty(), Data, path, ": no file matches this pattern");
  return files;
}

TokenSet open_tokens(Storage& storage, const std::string& path, TokenFormat format) {
  std::vector<TokenSource> shards;
  for (const std::string& file : matching_files(storage, path, Content::Tokens))
    shards.push_back(TokenSource::open(storage, file, format));
  return TokenSet(path, std::move(shards));
}

std::vector<BlendPart> parse_blend(const std::string& text) {
  std::vector<BlendPart> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    std::string entry = text.substr(at, comma - at);
    at = comma + 1;
    const auto begin = entry.find_first_not_of(" \t"), end = entry.find_last_not_of(" \t");
    entry = begin == std::string::npos ? "" : entry.substr(begin, end - begin + 1);
    const size_t space = entry.find_first_of(" \t");
    const std::optional<double> weight = parse_double(entry.substr(0, space));
    SXT_CHECK(space != std::string::npos && weight && *weight > 0, Config, "data.blend: '", entry,
              "' must be a weight above 0 and a path, such as '0.7 web/*.tokens'");
    parts.push_back({*weight, entry.substr(entry.find_first_not_of(" \t", space))});
  }
  return parts;
}

}  // namespace sextant
