#pragma once
#include "cli/command.h"

namespace sextant::cli {

// `config models`: presets with what grows with all parameters and what with the active ones.
Command models_command();

}  // namespace sextant::cli
