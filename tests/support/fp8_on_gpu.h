#pragma once
// fp8 ops on a GPU beside the CPU, for tests: tensors of the same values, results of the same
// bytes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/quantize.h"
#include "support/cuda_cases.h"
#include "support/workbench.h"

namespace sextant {

inline constexpr ScaleBlock kGpuTile{1, kScaleBlock}, kGpuColumnTile{kScaleBlock, 1};

inline constexpr int64_t kFp8CaseBytes = int64_t{160} << 20;  // with scratch

using AllBytes = std::vector<std::vector<std::byte>>;

// Normal values of the same bits on each device.
inline Tensor same_normals(Workbench& bench, DType dtype, const Shape& shape, std::string_view name,
                           double scale = 1) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  const Random random(1, name);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(scale * random.normal(i));
  Tensor tensor = bench.arena().allocate(Category::Activations, dtype, shape);
  copy_floats_from_host(bench.stream(), tensor, values);
  return tensor;
}

inline Tensor poisoned(Workbench& bench, DType dtype, const Shape& shape) {
  Tensor tensor = bench.arena().allocate(Category::Activations, dtype, shape);
  const std::vector<std::byte> poison(static_cast<size_t>(tensor.bytes()), std::byte{0xff});
  copy_bytes_from_host(bench.stream(), tensor, poison);
  return tensor;
}

class Fp8Cuda : public CudaTest {
 protected:
  // What `run` returns has the same bytes on both devices.
  template <class Run>
  void expect_same_bytes(const std::string& name, Run&& run) {
    Workbench cpu(1, DeviceKind::Cpu, kFp8CaseBytes), gpu(1, DeviceKind::Cuda, kFp8CaseBytes);
    const auto bytes_of = [&](Workbench& bench) {
      AllBytes all;
      for (const Tensor& tensor : run(bench)) all.push_back(bench.bytes(tensor));
      return all;
    };
    EXPECT_TRUE(bytes_of(cpu) == bytes_of(gpu)) << name;
  }
};

inline std::string fp8_text(const Shape& shape, DType from, DType to, const ScaleBlock& block) {
  return std::to_string(shape[0]) + " x " + std::to_string(shape[1]) + " " +
         std::string(name_of(from)) + " to " + std::string(name_of(to)) + " in " +
         std::to_string(block.rows) + " x " + std::to_string(block.columns);
}

}  // namespace sextant
