#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace sextant {

// A bad value that an op met in a tensor: an Error as plain data, because kernels cannot throw. The
// texts are literals; each % stands for the next value.
//   {Fault::Data, "embedding", "token id % is outside the vocabulary of %", {id, vocab}}
struct DataFault {
  Fault fault = Fault::Data;
  const char* op = nullptr;
  const char* text = nullptr;
  std::array<int64_t, 5> values = {};
};

// "op: text".
std::string to_string(const DataFault& fault);

}  // namespace sextant
