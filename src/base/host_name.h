#pragma once
#include <string>

namespace sextant {

// The name of this host; "localhost" if it has none.
std::string host_name();

}  // namespace sextant
