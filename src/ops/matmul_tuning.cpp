#include "ops/matmul_tuning.h"

#include "ops/dispatch.h"

namespace sextant {

#if SXT_HAS_CUDA
namespace cuda {
decltype(sextant::tune_matmul) tune_matmul;
}
#endif

void tune_matmul(Stream& stream, [[maybe_unused]] const std::string& directory) {
  if (stream.is_gpu()) SXT_CALL_CUDA(tune_matmul(stream, directory));
}

}  // namespace sextant
