#pragma once
#include <string>

#include "config/config.h"

namespace sextant {

// Throws Error(Data) unless weights of `stored` compute the same in `wanted`: all settings of
// [model] must be equal, except preset name, source directory, initialisation and, without learned
// positions, maximum sequence length. `what` names the checkpoint.
void check_same_model(const ModelConfig& stored, const ModelConfig& wanted,
                      const std::string& what);

}  // namespace sextant
