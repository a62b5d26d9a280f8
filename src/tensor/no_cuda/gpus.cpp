#include "tensor/device.h"

namespace sextant {

GpuList list_gpus() {
  return {{}, "this build has no CUDA (nvcc and cuBLAS were not both found)"};
}

}  // namespace sextant
