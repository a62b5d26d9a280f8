// Any text either loads or is refused with an Error of one line; what loads reads back the same.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "config/load.h"
#include "config/model_presets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sextant;
  const std::string text(reinterpret_cast<const char*>(data), size);
  LoadOptions options;
  options.read_hf = [](const std::string&) { return *model_preset("tiny-llama"); };
  ResolvedConfig loaded;
  try {
    loaded = parse_config(text, "fuzz.toml", {}, options);
  } catch (const Error& error) {
    if (std::string(error.what()).find('\n') != std::string::npos) std::abort();
    return 0;
  }
  if (parse_config(to_toml(loaded.config), "again.toml", {}).config != loaded.config) std::abort();
  return 0;
}
