#pragma once
#include <string>

#include "formats/hf_config.h"
#include "formats/hf_keys.h"

namespace sextant {

// Reads rope_theta and the scaling of a config.json, whose other sizes `config` has. `what` begins
// every message.
void read_hf_rope(HfConfig& config, const HfKeys& keys, const std::string& what);

}  // namespace sextant
