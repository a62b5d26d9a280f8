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
  GroupedOperands(const GroupedShape& shape, int threads)
      : arena(Device{}, bytes(shape) + Stream::scratch_bytes(threads)), stream(arena, threads) {
    const int64_t rows = shape.experts * shape.rows;
    x = make({rows, shape.in});
    y = make({rows, shape.out});
    weight = make({shape.experts * shape.out, shape.in});
    gradient = make({shape.experts * shape.out, shape.in});
    offsets = arena.allocate(Category::Workspace, DType::I32, {shape.experts + 1});
    copy_from_host<int32_t>(stream, offsets, shape.offsets());
  }
  static int64_t bytes(const GroupedShape& s) {
    return 4 * s.experts * (s.rows * (s.in + s.out) + 2 * s.out * s.in) + 8192;
  }
  Tensor make(const Shape& shape) {
    Tensor tensor = arena.allocate(Category::Workspace, DType::F32, shape);
    fill_constant(stream, tensor, 0.5);
    return tensor;
  }

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

std::vector<GroupedShape> grouped_shapes() {
  const GroupedShape even{"8 experts, 256 rows each", 8, 256, 768, 1024};
  GroupedShape skewed = even;
  skewed.name = "8 experts, half of 2048 rows on one";
  skewed.half_on_one = true;
  return {even, skewed};
}

std::vector<GroupedRow> bench_grouped(const GemmOptions& options,
                                      const std::vector<GroupedShape>& shapes, const Clock& clock) {
  std::vector<GroupedRow> rows;
  for (const int threads : options.threads)
    for (const GroupedShape& shape : shapes) {
      GroupedOperands data(shape, threads);
      const auto count = static_cast<double>(shape.experts * shape.rows);
      const double flops = 2 * count * static_cast<double>(shape.in * shape.out);
      for (const GroupedPass& pass : passes_of(data, shape)) {
        GroupedRow row{shape.name + ", " + pass.name, threads};
        for (int repeat = 0; repeat < options.repeats; ++repeat) {
          row.gflops = std::max(row.gflops, take_turn(options, clock, flops, pass.grouped));
          row.dense_gflops =
              std::max(row.dense_gflops, take_turn(options, clock, flops, pass.dense));
        }
        rows.push_back(row);
      }
    }
  return rows;
}

}  // namespace sextant
