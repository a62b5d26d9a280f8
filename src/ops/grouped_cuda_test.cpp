#include <algorithm>
#include <limits>

#include "ops/grouped_linear.h"
#include "support/cuda_cases.h"

namespace sextant {
namespace {

using T = std::span<Tensor>;
using Ints = std::vector<int32_t>;

class GroupedCuda : public CudaTest {};

// A matrix of whole numbers that bf16 and f16 hold exactly.
struct Numbers {
  int64_t rows = 0, columns = 0;
  std::vector<float> values = {};

  template <class F>
  static Numbers of(int64_t rows, int64_t columns, F&& value) {
    Numbers all{rows, columns};
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column)
        all.values.push_back(static_cast<float>(value(row, column)));
    return all;
  }
  // As good as different from all its neighbours.
  static Numbers different(int64_t rows, int64_t columns, const char* name) {
    const Random random(9, name);
    return of(rows, columns, [&](int64_t row, int64_t column) {
      return static_cast<int64_t>(
                 random.below(201, static_cast<uint64_t>(row * columns + column))) -
             100;
    });
  }
  float at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
};

// Rows of two experts and some of none; neither their numbers nor the sizes are those of tiles.
constexpr int64_t kFirstRows = 70, kUsedRows = 331, kAllRows = 340, kOutWidth = 312, kInWidth = 264;
const Ints kTwo = {0, kFirstRows, kUsedRows};
int64_t expert_of(int64_t row) {
  return row < kFirstRows ? 0 : 1;
}
int64_t begin_of(int64_t expert) {
  return expert == 0 ? 0 : kFirstRows;
}
int64_t count_of(int64_t expert) {
  return expert == 0 ? kFirstRows : kUsedRows - kFirstRows;
}

class Placing {
 public:
  Placing(Workbench& bench, DType type) : bench_(bench), type_(type) {}

  Tensor make(const Numbers& numbers, DType type) {
    Tensor tensor =
        bench_.arena().allocate(Category::Activations, type, {numbers.rows, numbers.columns});
    copy_floats_from_host(bench_.stream(), tensor, numbers.values);
    return tensor;
  }
  Tensor make(const Numbers& numbers) { return make(numbers, type_); }
  Tensor poisoned(int64_t rows, int64_t columns, DType type) {
    return make(Numbers::of(rows, columns, [](int64_t, int64_t) { return kPoison; }), type);
  }
  Tensor poisoned(int64_t rows, int64_t columns) { return poisoned(rows, columns, type_); }
  Tensor offsets() { return bench_.make<int32_t>({3}, kTwo); }

  // c[row, column] = wanted(row, column) of the first `rows`, and the others as they were.
  template <class F>
  void expect(const Tensor& c, int64_t rows, const std::string& name, F&& wanted) {
    std::vector<float> got(static_cast<size_t>(c.elements()));
    copy_floats_to_host(bench_.stream(), got, c);
    bench_.stream().check_data();
    int64_t wrong = 0;
    for (int64_t row = 0; row < c.dim(0); ++row)
      for (int64_t column = 0; column < c.dim(1); ++column) {
        const float is = got[static_cast<size_t>(row * c.dim(1) + column)];
        const float should = row < rows ? wanted(row, column) : kPoison;
        if (is != should && wrong++ < 6)
          ADD_FAILURE() << name << " of " << name_of(type_) << " in " << name_of(c.dtype())
                        << ": row " << row << ", column " << column << " is " << is << ", must be "
                        << should;
      }
    EXPECT_EQ(wrong, 0) << name << ": wrong elements of " << c.elements();
  }

 private:
  static constexpr float kPoison = 8192;
  Workbench& bench_;
  DType type_;
};

// One operand chooses a line of the other for each row or column of the result: a sum is one of the
// other's numbers, which tells where a wrong one was taken from.
TEST_F(GroupedCuda, EveryElementOfAnOperandIsUsedWhereItBelongs) {
  for (const DType type : {DType::BF16, DType::F16}) {
    Placing on_gpu(on(DeviceKind::Cuda), type);
    Stream& stream = on(DeviceKind::Cuda).stream();
    const Tensor offsets = on_gpu.offsets();
    const Numbers x = Numbers::different(kAllRows, kInWidth, "x"),
                  dy = Numbers::different(kAllRows, kOutWidth, "dy");
    const Numbers weight = Numbers::different(2 * kOutWidth, kInWidth, "weight");
    const Numbers chooses_in = Numbers::of(2 * kOutWidth, kInWidth, [](int64_t n, int64_t k) {
      return n % kOutWidth % kInWidth == k ? 1 : 0;
    });
    const Numbers chooses_out = Numbers::of(2 * kOutWidth, kInWidth, [](int64_t k, int64_t n) {
      return n % kOutWidth == k % kOutWidth ? 1 : 0;
    });
    const auto by_row = [](int64_t columns) {
      return Numbers::of(kAllRows, columns,
                         [=](int64_t row, int64_t k) { return row % columns == k ? 1 : 0; });
    };
    Tensor y = on_gpu.poisoned(kAllRows, kOutWidth), dx = on_gpu.poisoned(kAllRows, kInWidth);
    grouped_linear(stream, y, on_gpu.make(x), on_gpu.make(chooses_in), offsets);
    on_gpu.expect(y, kUsedRows, "y, x",
                  [&](int64_t row, int64_t n) { return x.at(row, n % kInWidth); });
    grouped_linear(stream, y, on_gpu.make(by_row(kInWidth)), on_gpu.make(weight), offsets);
    on_gpu.expect(y, kUsedRows, "y, weight", [&](int64_t row, int64_t n) {
      return weight.at(expert_of(row) * kOutWidth + n, row % kInWidth);
    });
    grouped_linear_backward_input(stream, dx, on_gpu.make(dy), on_gpu.make(chooses_out), offsets);
    on_gpu.expect(dx, kUsedRows, "dx, dy",
                  [&](int64_t row, int64_t n) { return dy.at(row, n % kOutWidth); });
    grouped_linear_backward_input(stream, dx, on_gpu.make(by_row(kOutWidth)), on_gpu.make(weight),
                                  offsets);
    on_gpu.expect(dx, kUsedRows, "dx, weight", [&](int64_t row, int64_t n) {
      return weight.at(expert_of(row) * kOutWidth + row % kOutWidth, n);
    });
    // Of the rows of an expert, that of the column's or the row's number.
    const auto by_column = [](int64_t columns) {
      return Numbers::of(kAllRows, columns, [](int64_t row, int64_t n) {
        const int64_t expert = expert_of(row);
        return row - begin_of(expert) == n % count_of(expert) ? 1 : 0;
      });
    };
    const auto chosen = [](int64_t expert, int64_t number) {
      return begin_of(expert) + number % count_of(expert);
    };
    for (const DType result : {type, DType::F32})
      for (const Write write : {Write::Replace, Write::Add}) {
        const float before = write == Write::Add ? 3 : 0;
        const std::string name = write == Write::Add ? "dweight added" : "dweight";
        const auto start = [&] {
          if (write == Write::Replace) return on_gpu.poisoned(2 * kOutWidth, kInWidth, result);
          return on_gpu.make(
              Numbers::of(2 * kOutWidth, kInWidth, [](int64_t, int64_t) { return 3; }), result);
        };
        Tensor dweight = start();
        grouped_linear_backward_weight(stream, dweight, on_gpu.make(dy),
                                       on_gpu.make(by_column(kInWidth)), offsets, write);
        on_gpu.expect(dweight, 2 * kOutWidth, name + ", dy", [&](int64_t line, int64_t n) {
          return before + dy.at(chosen(line / kOutWidth, n), line % kOutWidth);
        });
        dweight = start();
        grouped_linear_backward_weight(stream, dweight, on_gpu.make(by_column(kOutWidth)),
                                       on_gpu.make(x), offsets, write);
        on_gpu.expect(dweight, 2 * kOutWidth, name + ", x", [&](int64_t line, int64_t n) {
          return before + x.at(chosen(line / kOutWidth, line % kOutWidth), n);
        });
      }
  }
}

struct GroupSizes {
  const char* name;
  Ints offsets;
  int64_t rows, out, in;
};

// Offsets of groups of random sizes, some of them empty.
Ints random_offsets(int experts, uint64_t most, const char* name) {
  Ints offsets = {0};
  const Random random(4, name);
  for (uint64_t e = 0; e < static_cast<uint64_t>(experts); ++e)
    offsets.push_back(offsets.back() +
                      static_cast<int32_t>(random.below(4, e) == 0 ? 0 : random.below(most, e)));
  return offsets;
}

// Widths that 16 bytes divide, as tiles of the tensor cores of Hopper need them: more tiles than
// multiprocessors, more along k than the ring has stages, and less than one of each.
TEST_F(GroupedCuda, GroupsOfAnySizesGiveWhatTheCpuGives) {
  std::vector<GroupSizes> sizes = {{"one row", {0, 1}, 1, 8, 8},
                                   {"whole tiles", {0, 128, 384}, 384, 256, 128},
                                   {"one group", {0, 0, 1000, 1000}, 1000, 264, 584},
                                   {"many groups", random_offsets(70, 40, "many"), 0, 136, 72},
                                   {"many tiles", random_offsets(6, 1200, "tiles"), 0, 1288, 200},
                                   {"deep", random_offsets(5, 300, "deep"), 0, 520, 1544},
                                   {"no rows", {0, 0, 0}, 64, 40, 24}};
  for (GroupSizes& size : sizes) {
    if (size.rows == 0) size.rows = size.offsets.back() + 5;
    const auto experts = static_cast<int64_t>(size.offsets.size()) - 1;
    const Shape x = {size.rows, size.in}, y = {size.rows, size.out};
    const Shape weights = {experts * size.out, size.in};
    const CudaTensor offsets = whole({experts + 1}, size.offsets);
    const auto expect = [&](const std::string& op, const std::vector<CudaTensor>& tensors,
                            const std::function<void(Stream&, T)>& call) {
      CudaCase test{concat(op, " of ", size.name), tensors, call};
      test.noise = 1e-5;
      for (const DType type : {DType::BF16, DType::F16}) expect_like_cpu(test, {type, type, {0}});
      if (tensors[0].role == Role::Gradient) expect_like_cpu(test, {DType::BF16, DType::F32, {0}});
    };
    expect("y", {changed(y), in(x), in(weights), offsets},
           [](Stream& s, T t) { grouped_linear(s, t[0], t[1], t[2], t[3]); });
    expect("dx", {changed(x), in(y), in(weights), offsets},
           [](Stream& s, T t) { grouped_linear_backward_input(s, t[0], t[1], t[2], t[3]); });
    for (const Write write : {Write::Replace, Write::Add})
      expect(
          write == Write::Add ? "dweight added" : "dweight",
          {gradient(weights, write == Write::Add ? Use::InOut : Use::Out), in(y), in(x), offsets},
          [=](Stream& s, T t) {
            grouped_linear_backward_weight(s, t[0], t[1], t[2], t[3], write);
          });
  }
}

// A tile reads rows and weights of the next expert, too. Nothing of them may reach a sum.
TEST_F(GroupedCuda, NumbersOfOtherExpertsDoNotMatter) {
  Workbench& bench = on(DeviceKind::Cuda);
  Stream& stream = bench.stream();
  const int64_t rows = 200, in = 136, out = 72;  // 72: a step of 64 along k ends among weights
  const Tensor offsets = bench.make<int32_t>({5}, {0, 37, 101, 165, 190});
  const auto make = [&](int64_t lines, int64_t width, const char* name, int64_t begin, int64_t end,
                        float other) {
    std::vector<float> values = bench.read<float>(bench.random<float>({lines, width}, name));
    std::fill(values.begin() + begin * width, values.begin() + end * width, other);
    Tensor tensor = bench.empty<bf16>({lines, width});
    copy_floats_from_host(stream, tensor, values);
    return tensor;
  };
  const auto results = [&](float other) {  // in the rows and weights of the second expert
    const Tensor x = make(rows, in, "x", 37, 101, other),
                 dy = make(rows, out, "dy", 37, 101, other);
    const Tensor weight = make(4 * out, in, "weight", out, 2 * out, other);
    Tensor y = bench.random<bf16>({rows, out}, "y"), dx = bench.random<bf16>({rows, in}, "dx");
    Tensor dweight = bench.random<float>({4 * out, in}, "dweight");
    grouped_linear(stream, y, x, weight, offsets);
    grouped_linear_backward_input(stream, dx, dy, weight, offsets);
    grouped_linear_backward_weight(stream, dweight, dy, x, offsets, Write::Replace);
    std::vector<std::vector<std::byte>> all;
    const auto keep = [&](const Tensor& tensor, int64_t begin, int64_t end) {  // all but these
      all.push_back(bench.bytes(tensor.slice(0, begin)));
      all.push_back(bench.bytes(tensor.slice(end, tensor.dim(0))));
    };
    keep(y, 37, 101);
    keep(dx, 37, 101);
    keep(dweight, out, 2 * out);
    return all;
  };
  const auto wanted = results(0);
  EXPECT_TRUE(results(std::numeric_limits<float>::quiet_NaN()) == wanted);
  EXPECT_TRUE(results(std::numeric_limits<float>::infinity()) == wanted);
}

}  // namespace
}  // namespace sextant
