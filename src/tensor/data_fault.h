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

// The same as a kernel writes it into device memory, where there are no literals of the host.
struct DeviceFault {
  int32_t message = 0;  // number of its literals (message_of); 0: none
  int64_t values[5] = {};
};

// The number, from 1 on, of a DataFault's literals, the same in every call. Any thread may call it.
int32_t message_of(Fault fault, const char* op, const char* text);
// The fault that `written` stands for; its message must be a number that message_of gave.
DataFault fault_from(const DeviceFault& written);

}  // namespace sextant
