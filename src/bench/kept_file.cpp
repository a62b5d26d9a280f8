#include "bench/kept_file.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/digest.h"
#include "formats/json.h"

namespace sextant {
namespace {

std::string kept_path(const std::string& directory, const std::string& what,
                      const nlohmann::json& key) {
  return join_path(directory, what + "-" + digest_of(key.dump()) + ".json");
}

std::string kept_text(nlohmann::json key, const std::string& what, const nlohmann::json& value) {
  key[what] = value;
  const std::string digest = digest_of(key.dump());
  key["xxh3_128"] = digest;
  return key.dump() + "\n";
}

}  // namespace

// Only what would be written again in exactly these bytes.
std::optional<nlohmann::json> read_kept(Storage& storage, const std::string& directory,
                                        const std::string& what, const nlohmann::json& key) {
  if (directory.empty()) return {};
  const std::string path = kept_path(directory, what, key);
  try {
    if (!storage.exists(path)) return {};
    const std::string text = read_text(storage, path);
    const nlohmann::json value = parse_json_strict(text, path).at(what);
    if (text == kept_text(key, what, value)) return value;
  } catch (const Error&) {
  } catch (const nlohmann::json::exception&) {
  }
  return {};
}

void write_kept(Storage& storage, const std::string& directory, const std::string& what,
                const nlohmann::json& key, const nlohmann::json& value) {
  if (directory.empty()) return;
  storage.make_directories(directory);
  replace_file(storage, kept_path(directory, what, key), kept_text(key, what, value));
}

}  // namespace sextant
