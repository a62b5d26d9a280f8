#include "plan/gemm_time.h"

#include <cmath>

namespace sextant {
namespace {

// Boards of eight Blackwell GPUs run below the power of those in racks.
bool is_air_cooled(const Hardware& hardware) {
  return hardware.generation == GpuGeneration::Blackwell && hardware.power < hardware.design_power;
}

double input_bytes(NumberFormat format) {
  return format == NumberFormat::Fp32    ? 4
         : format == NumberFormat::Nvfp4 ? 0.5625
         : is_narrow(format)             ? 1
                                         : 2;
}

}  // namespace

bool is_narrow(NumberFormat format) {
  return format >= NumberFormat::Fp8Tensor;
}

double peak_of(const Hardware& hardware, NumberFormat format) {
  switch (format) {
    case NumberFormat::Fp32:
      return hardware.tf32 > 0 ? hardware.tf32 : hardware.fp32;
    case NumberFormat::Bf16:
      return hardware.bf16;
    case NumberFormat::Fp16:
      return hardware.fp16;
    case NumberFormat::Fp8Tensor:
    case NumberFormat::Fp8Row:
    case NumberFormat::Mxfp8:
      return hardware.fp8;
    case NumberFormat::Nvfp4:
      return hardware.fp4;
  }
  return 0;
}

double power_share(const Hardware& hardware, const Constants& constants) {
  return std::pow(hardware.power / hardware.design_power, constants.power);
}

double gemm_rate(const Hardware& hardware, const Constants& constants, NumberFormat format) {
  const double power = power_share(hardware, constants);
  const double share = is_air_cooled(hardware) ? constants.gemm_air : constants.gemm;
  const double half = half_peak(hardware) * hardware.gemm_ceiling * share * power;
  const double eight = hardware.fp8 * hardware.gemm_ceiling_fp8 * power;
  switch (format) {
    case NumberFormat::Fp32:
      return peak_of(hardware, format) * hardware.gemm_ceiling * share * power;
    case NumberFormat::Bf16:
    case NumberFormat::Fp16:
      return half;
    case NumberFormat::Fp8Tensor:
    case NumberFormat::Mxfp8:
      return eight > 0 ? eight * constants.fp8 : half;
    case NumberFormat::Fp8Row:
      return eight > 0 ? eight * constants.fp8_row : half;
    case NumberFormat::Nvfp4:
      return hardware.fp4 > 0 ? hardware.fp4 * hardware.gemm_ceiling_fp8 * power * constants.fp4
                              : (eight > 0 ? eight * constants.fp8 : half);
  }
  return half;
}

double gemm_seconds(const Hardware& hardware, const Constants& constants, NumberFormat format,
                    double m, double n, double k) {
  const double in = input_bytes(format);
  const double bytes = in * (m * k + k * n) + 2 * m * n;
  return 2 * m * n * k / gemm_rate(hardware, constants, format) +
         constants.gemm_memory * bytes / hardware.memory_rate;
}

}  // namespace sextant
