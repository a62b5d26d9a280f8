#pragma once
#include <string>

#include "config/config.h"

namespace sextant {

// Throws Error(Data) when weights of `stored` would compute something else as `wanted`: any setting
// of [model] but the preset's name, the directory of origin and the initialisation, and the longest
// sequence only where positions are learned. `what` names the checkpoint.
void check_same_model(const ModelConfig& stored, const ModelConfig& wanted,
                      const std::string& what);

}  // namespace sextant
