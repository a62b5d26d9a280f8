#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/cache_directory.h"
#include "base/storage.h"

namespace sextant {

// A measured value in a file of `directory`, whose name has `what` and a digest of `key`: all that
// the value depends on. Nothing is read of a file that is damaged or has another key.
std::optional<nlohmann::json> read_kept(Storage& storage, const std::string& directory,
                                        const std::string& what, const nlohmann::json& key);
void write_kept(Storage& storage, const std::string& directory, const std::string& what,
                const nlohmann::json& key, const nlohmann::json& value);

}  // namespace sextant
