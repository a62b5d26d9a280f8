#include "base/dtype.h"

namespace sextant {

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return "f64";
    case DType::F32:
      return "f32";
    case DType::BF16:
      return "bf16";
    case DType::F16:
      return "f16";
    case DType::F8E4M3:
      return "f8e4m3";
    case DType::F8E5M2:
      return "f8e5m2";
    case DType::I32:
      return "i32";
    case DType::I64:
      return "i64";
  }
  return "?";
}

}  // namespace sextant
