#include "tensor/data_fault.h"

namespace sextant {

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

}  // namespace sextant
