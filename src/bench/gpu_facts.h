#pragma once
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace sextant {

// The dense peak of a GPU in FLOP/s by its data sheet, for products of this type (f32: without
// tensor cores); 0 if the GPU is not known here. `name`: as CUDA gives it, "NVIDIA H200".
double data_sheet_peak(std::string_view name, DType dtype);
// The same for the first GPU of this machine; 0 without one.
double gpu_peak(DType dtype);

// The version of a library of CUDA that the dynamic loader finds, such as "9.19.0"; "" if it finds
// none.
std::string cublas_version();
std::string cudnn_version();
std::string nccl_version();

}  // namespace sextant
