#pragma once
#include <string>
#include <vector>

#include "bench/gemm.h"
#include "tensor/device.h"

namespace sextant {

// The grouped GEMM of experts, with as many rows of each or with half of all rows on the first.
struct GroupedShape {
  std::string name;
  int64_t experts = 0, rows = 0, in = 0, out = 0;  // rows of an expert on average
  bool half_on_one = false;

  std::vector<int32_t> offsets() const;  // of the experts' rows, [experts + 1]
};
// CPU: 8 experts of 256 rows each. Cuda: 8 of 4096 rows each, with the widths of Mixtral's form of
// llama-1b.
std::vector<GroupedShape> grouped_shapes(DeviceKind device);

// Forward, input gradient and weight gradient, each beside one dense product of all rows: as many
// FLOPs. Best of the turns. On a GPU in bf16, with weight gradients in f32.
struct GroupedRow {
  std::string name;
  int threads = 1;
  double gflops = 0, dense_gflops = 0;
  double ratio() const { return gflops / dense_gflops; }
};
// Of options: threads, repeats and times.
std::vector<GroupedRow> bench_grouped(const GemmOptions& options,
                                      const std::vector<GroupedShape>& shapes, DeviceKind device,
                                      const Clock& clock);

}  // namespace sextant
