#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace sextant {

// Calls of one rank whose results are the same over every transport, as bytes.
struct Scenario {
  std::string name;
  std::function<std::vector<std::byte>(Communicator&)> run;
};
std::vector<Scenario> all_scenarios();

}  // namespace sextant
