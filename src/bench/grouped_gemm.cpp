#include "bench/grouped_gemm.h"

#include <algorithm>

#include "ops/grouped_linear.h"
#include "ops/random_fill.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

// The operands of one shape, in an arena of their own. `weight` is that of all experts; its first
// rows are the dense one.
struct GroupedOperands {
  GroupedOperands(const GroupedShape& shape, DeviceKind device, int threads)
      : type(device == DeviceKind::Cuda ? DType::BF16 : DType::F32),
        arena(Device{device}, bytes(shape, type) + Stream::scratch_bytes(Device{device}, threads)),
        stream(arena, threads) {
    const int64_t rows = shape.experts * shape.rows;
    x = make("x", type, {rows, shape.in});
    y = make("y", type, {rows, shape.out});
    weight = make("weight", type, {shape.experts * shape.out, shape.in});
    gradient = make("gradient", DType::F32, {shape.experts * shape.out, shape.in});
    offsets = arena.allocate(Category::Workspace, DType::I32, {shape.experts + 1});
    copy_from_host<int32_t>(stream, offsets, shape.offsets());
  }
  static int64_t bytes(const GroupedShape& s, DType type) {
    const int64_t weights = s.experts * s.out * s.in;
    return size_of(type) * (s.experts * s.rows * (s.in + s.out) + weights) + 4 * weights + 8192;
  }
  // Normal values: a GPU multiplies equal ones with less power, so faster.
  Tensor make(const char* name, DType dtype, const Shape& shape) {
    Tensor tensor = arena.allocate(Category::Workspace, dtype, shape);
    fill_normal(stream, tensor, 1, name, 0.02, 0);
    return tensor;
  }

  DType type;
  Arena arena;
  Stream stream;
  Tensor x, y, weight, gradient, offsets;
};

struct GroupedPass {
  const char* name;
  std::function<void()> grouped, dense;
};

std::vector<GroupedPass> passes_of(GroupedOperands& data, const GroupedShape& shape) {
  constexpr auto kNo = Transpose::No, kYes = Transpose::Yes;
  const Tensor one = data.weight.slice(0, shape.out);
  return {{"forward",
           [&data] { grouped_linear(data.stream, data.y, data.x, data.weight, data.offsets); },
           [&data, one] { matmul(data.stream, data.y, data.x, kNo, one, kYes, {}); }},
          {"backward input",
           [&data] {
             grouped_linear_backward_input(data.stream, data.x, data.y, data.weight, data.offsets);
           },
           [&data, one] { matmul(data.stream, data.x, data.y, kNo, one, kNo, {}); }},
          {"backward weight",
           [&data] {
             grouped_linear_backward_weight(data.stream, data.gradient, data.y, data.x,
                                            data.offsets, Write::Replace);
           },
           [&data, &shape] {
             Tensor own = data.gradient.slice(0, shape.out);
             matmul(data.stream, own, data.y, kYes, data.x, kNo, {});
           }}};
}

}  // namespace

std::vector<int32_t> GroupedShape::offsets() const {
  const int64_t all = experts * rows, first = half_on_one ? all / 2 : rows;
  std::vector<int32_t> out = {0};
  for (int64_t e = 0; e < experts; ++e)
    out.push_back(
        static_cast<int32_t>(first + (all - first) * e / std::max<int64_t>(1, experts - 1)));
  return out;
}

std::vector<GroupedShape> grouped_shapes(DeviceKind device) {
  if (device == DeviceKind::Cuda) {
    const GroupedShape up{"gate and up, 4096 rows each", 8, 4096, 2048, 8192};
    const GroupedShape down{"down, 4096 rows each", 8, 4096, 4096, 2048};
    GroupedShape skewed = up;
    skewed.name = "gate and up, half of 32768 rows on one";
    skewed.half_on_one = true;
    return {up, down, skewed};
  }
  const GroupedShape even{"8 experts, 256 rows each", 8, 256, 768, 1024};
  GroupedShape skewed = even;
  skewed.name = "8 experts, half of 2048 rows on one";
  skewed.half_on_one = true;
  return {even, skewed};
}

std::vector<GroupedRow> bench_grouped(const GemmOptions& options,
                                      const std::vector<GroupedShape>& shapes, DeviceKind device,
                                      const Clock& clock) {
  std::vector<GroupedRow> rows;
  for (const int threads : options.threads)
    for (const GroupedShape& shape : shapes) {
      GroupedOperands data(shape, device, threads);
      const auto measure = [&](double flops, const std::function<void()>& work) {
        return take_turn(options, clock, flops, [&] {
          work();
          data.stream.synchronize();
        });
      };
      const auto count = static_cast<double>(shape.experts * shape.rows);
      const double flops = 2 * count * static_cast<double>(shape.in * shape.out);
      for (const GroupedPass& pass : passes_of(data, shape)) {
        GroupedRow row{shape.name + ", " + pass.name, threads};
        for (int repeat = 0; repeat < options.repeats; ++repeat) {
          row.gflops = std::max(row.gflops, measure(flops, pass.grouped));
          row.dense_gflops = std::max(row.dense_gflops, measure(flops, pass.dense));
        }
        rows.push_back(row);
      }
    }
  return rows;
}

}  // namespace sextant
