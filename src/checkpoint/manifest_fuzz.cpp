// Any text is either rejected with Error(Data) or parsed, and a parsed manifest survives a round
// trip. The digest at the end is corrected first, so that the other checks are reached.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "checkpoint/digest.h"
#include "checkpoint/manifest_parts.h"

namespace {

using namespace sextant;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_round_trip(std::string_view text) {
  try {
    const Manifest manifest = parse_manifest(text, "input");
    require(parse_manifest(to_json(manifest), "rewritten") == manifest);
  } catch (const Error& error) {
    require(error.fault() == Fault::Data);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_round_trip(text);
  const size_t key = text.rfind(concat("\"", kManifestDigestKey, "\""));
  if (key == std::string::npos) return 0;
  const std::string front = text.substr(0, key);
  check_round_trip(front + manifest_tail(digest_of(front)));
  return 0;
}
