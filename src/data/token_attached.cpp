// The tokenizer's files inside a token file.
#include "base/error.h"
#include "data/little_endian.h"
#include "data/token_layout.h"
#include "formats/json.h"

namespace sextant {

constexpr int64_t kLengths = 4 + 8;

std::vector<std::byte> attached_bytes(const TokenizerFiles& files) {
  std::vector<std::byte> out;
  for (const TokenizerFiles::File& file : files.files) {
    store(out, static_cast<uint32_t>(file.name.size()));
    store(out, static_cast<uint64_t>(file.content.size()));
    for (const std::string* text : {&file.name, &file.content}) {
      const std::span<const std::byte> bytes = std::as_bytes(std::span(*text));
      out.insert(out.end(), bytes.begin(), bytes.end());
    }
  }
  return out;
}

TokenizerFiles parse_attached(std::span<const std::byte> bytes, const std::string& name) {
  TokenizerFiles out;
  const auto size = static_cast<int64_t>(bytes.size());
  const auto text = [&](int64_t at, uint64_t length) {
    return std::string(reinterpret_cast<const char*>(bytes.data()) + at, length);
  };
  for (int64_t at = 0; at < size;) {
    SXT_CHECK(size - at >= kLengths, Data, name, ": the tokenizer's files are cut");
    const auto name_size = load<uint32_t>(bytes, at);
    const auto content_size = load<uint64_t>(bytes, at + 4);
    const auto left = static_cast<uint64_t>(size - at - kLengths);
    SXT_CHECK(name_size <= left && content_size <= left - name_size, Data, name,
              ": the tokenizer's files are cut");
    TokenizerFiles::File file{text(at + kLengths, name_size),
                              text(at + kLengths + name_size, content_size)};
    SXT_CHECK(is_tokenizer_file(file.name) && out.empty() == (file.name == kTokenizerJson), Data,
              name, ": file ", shown(file.name), " among those of its tokenizer; ", kTokenizerJson,
              " comes first, then its companions");
    out.files.push_back(std::move(file));
    at += kLengths + static_cast<int64_t>(name_size + content_size);
  }
  return out;
}

}  // namespace sextant
