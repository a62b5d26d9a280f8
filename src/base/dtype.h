#pragma once
#include <cstdint>
#include <string_view>

namespace sextant {

enum class DType : uint8_t { F64, F32, BF16, F16, F8E4M3, F8E5M2, I32, I64 };

// Storage of the narrow types; arithmetic happens in float (see convert.h).
struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};
struct f8e4m3 {
  uint8_t bits;
};
struct f8e5m2 {
  uint8_t bits;
};

constexpr int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::I64:
      return 8;
    case DType::F32:
    case DType::I32:
      return 4;
    case DType::BF16:
    case DType::F16:
      return 2;
    case DType::F8E4M3:
    case DType::F8E5M2:
      return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) {
  return dtype != DType::I32 && dtype != DType::I64;
}

std::string_view name_of(DType dtype);  // "f32", "bf16", ...

template <class T>
inline constexpr DType kDTypeOf = DType::F32;
template <>
inline constexpr DType kDTypeOf<double> = DType::F64;
template <>
inline constexpr DType kDTypeOf<bf16> = DType::BF16;
template <>
inline constexpr DType kDTypeOf<f16> = DType::F16;
template <>
inline constexpr DType kDTypeOf<f8e4m3> = DType::F8E4M3;
template <>
inline constexpr DType kDTypeOf<f8e5m2> = DType::F8E5M2;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::I32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::I64;

}  // namespace sextant
