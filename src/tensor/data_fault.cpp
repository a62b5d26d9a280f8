#include "tensor/data_fault.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

namespace sextant {
namespace {

// The messages of this process, by number - 1. They are program text, so one table serves all
// devices.
struct Messages {
  std::mutex mutex;
  std::vector<DataFault> known;
};

Messages& messages() {
  static Messages all;
  return all;
}

}  // namespace

std::string to_string(const DataFault& fault) {
  std::string out = concat(fault.op, ": ");
  size_t next = 0;
  for (const char* at = fault.text; *at != 0; ++at) {
    if (*at == '%')
      out += std::to_string(fault.values.at(next++));
    else
      out += *at;
  }
  return out;
}

int32_t message_of(Fault fault, const char* op, const char* text) {
  Messages& all = messages();
  const std::lock_guard lock(all.mutex);
  const auto found = std::ranges::find_if(all.known, [&](const DataFault& known) {
    return known.fault == fault && std::strcmp(known.op, op) == 0 &&
           std::strcmp(known.text, text) == 0;
  });
  if (found != all.known.end()) return static_cast<int32_t>(found - all.known.begin()) + 1;
  all.known.push_back({fault, op, text, {}});
  return static_cast<int32_t>(all.known.size());
}

DataFault fault_from(const DeviceFault& written) {
  Messages& all = messages();
  const std::lock_guard lock(all.mutex);
  SXT_CHECK(written.message > 0 && static_cast<size_t>(written.message) <= all.known.size(),
            Internal, "a kernel reported message ", written.message, " of ", all.known.size());
  DataFault fault = all.known[static_cast<size_t>(written.message) - 1];
  std::ranges::copy(written.values, fault.values.begin());
  return fault;
}

}  // namespace sextant
