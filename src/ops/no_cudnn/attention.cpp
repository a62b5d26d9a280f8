#include "ops/attention_library.h"

namespace sextant::cudnn {

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
