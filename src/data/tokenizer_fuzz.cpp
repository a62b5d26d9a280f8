// Input: a tokenizer.json, a NUL byte, a text. Any file either throws Error(Data) or gives a
// tokenizer whose ids are in its vocabulary.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "data/tokenizer.h"

namespace {

constexpr size_t kLongestText = 64;  // patterns may take exponential time, up to their limit

void check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sextant;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t nul = input.find('\0');
  const std::string_view file = input.substr(0, nul);
  const std::string_view text =
      nul == std::string_view::npos ? "a \xc3\xa9 12" : input.substr(nul + 1, kLongestText);
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(file, "tokenizer.json");
    const std::vector<int32_t> ids = tokenizer.encode(text, Specials::With);
    for (const int32_t id : ids) check(id >= 0 && id < tokenizer.vocab());
    tokenizer.decode(ids);
    check(!tokenizer.eod() || *tokenizer.eod() < tokenizer.vocab());
  } catch (const Error& error) {
    check(error.fault() == Fault::Data || error.fault() == Fault::Failure);  // Failure: no PCRE2
    check(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
