#pragma once
#include <string>

#include "tensor/stream.h"

namespace sextant {

// From now on the first product of a shape in bf16 or f16, on this thread and the stream's GPU, is
// computed by several kernels of cuBLASLt, and the fastest is used for it and all that follow. The
// choice is kept in a file of `directory`, for this GPU and version of the library, and is that of
// every later run: runs that find the file have the same bits. "" ends this: the library's
// heuristics choose, as they do where the file cannot be written. Nothing to do on other devices.
void tune_matmul(Stream& stream, const std::string& directory);

}  // namespace sextant
