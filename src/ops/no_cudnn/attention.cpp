#include "ops/attention_library.h"

namespace sextant::cudnn {

std::string why_unusable() {
  return "this build has no cuDNN (CUDA, cudnn.h or cudnn_frontend.h was not found): pip install "
         "nvidia-cudnn-frontend and build again";
}

int64_t workspace_bytes(const Heads&, DType) {
  return 0;
}

int64_t lengths_per_row(const Heads&) {
  return 1;
}

bool attention(const Call&, void*, float*, const void*) {
  return false;
}

bool attention_backward(const Call&, void*, const void*, const void*, const float*, const void*) {
  return false;
}

}  // namespace sextant::cudnn
