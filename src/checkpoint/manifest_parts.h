#pragma once
#include <string>
#include <string_view>

#include "checkpoint/manifest.h"

namespace sextant {

inline constexpr std::string_view kManifestFormat = "sextant-checkpoint";
inline constexpr std::string_view kManifestDigestKey = "manifest_xxh3_128";

// The end of manifest.json: its last key, whose value is the digest of all bytes before the key.
std::string manifest_tail(const std::string& digest);

// Checks that the fields are consistent. Throws Error(Data) that begins with `what`.
void check_manifest(const Manifest& manifest, const std::string& what);

}  // namespace sextant
