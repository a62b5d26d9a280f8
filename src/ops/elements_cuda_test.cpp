#include "ops/add.h"
#include "ops/cast.h"
#include "ops/dropout.h"
#include "ops/pack_kv.h"
#include "ops/random_fill.h"
#include "ops/rope.h"
#include "ops/sequence_rows.h"
#include "ops/split_heads.h"
#include "ops/swiglu.h"
#include "ops/work_cases.h"
#include "support/agree.h"
#include "support/cuda_cases.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

using T = std::span<Tensor>;

class ElementsCuda : public CudaTest {};

const std::vector<Shape> kMatrices = {{1, 1}, {7, 3}, {5, 65}, {3, 1000}, {2, 50257}, {64, 256}};

std::string sized(const char* op, const Shape& shape) {
  return std::string(op) + " of " + std::to_string(shape[0]) + " x " + std::to_string(shape[1]);
}

void expect_what_the_cpu_gives(const WorkCase& test) {
  std::vector<std::vector<std::byte>> results[2];
  for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
    Workbench bench(1, device);
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < test.tensors.size(); ++i) {
      const CaseTensor& tensor = test.tensors[i];
      const CudaTensor like{tensor.dtype == DType::I32 ? Role::Whole : Role::Compute,
                            tensor.shape,
                            Use::In,
                            tensor.scale,
                            tensor.offset,
                            tensor.whole};
      tensors.push_back(cuda_cases::make(bench, tensor.dtype, tensor.shape, 0));
      copy_bytes_from_host(
          bench.stream(), tensors.back(),
          cuda_cases::before(like, tensor.dtype, tensor.dtype, std::to_string(i)).own);
    }
    test.call(bench.stream(), tensors);
    for (const Tensor& tensor : tensors)
      results[device == DeviceKind::Cuda].push_back(bench.bytes(tensor));
  }
  for (size_t i = 0; i < test.tensors.size(); ++i) {
    const DType type = test.tensors[i].dtype;
    if (type == DType::I32)
      EXPECT_TRUE(results[0][i] == results[1][i]) << test.name << " tensor " << i;
    else
      cuda_cases::expect_near(cuda_cases::as_doubles(type, results[1][i]),
                              cuda_cases::as_doubles(type, results[0][i]),
                              4 * cuda_cases::roundoff(type) + 1e-5,
                              std::string(test.name) + " tensor " + std::to_string(i));
  }
}

// With f32 alone, and as small as they are: every op at least once.
TEST_F(ElementsCuda, EveryOpGivesWhatTheCpuGives) {
  for (const WorkCase& test : work_cases()) {
    if (test.runs_on == RunsOn::Cpu) continue;
    EXPECT_NO_THROW(expect_what_the_cpu_gives(test)) << test.name;
  }
}

TEST_F(ElementsCuda, DoublesAreRefused) {
  Workbench bench(1, DeviceKind::Cuda);
  Tensor y = bench.empty<double>({4, 4});
  EXPECT_ERROR(add(bench.stream(), y, y, y), Usage, "add: f64 runs on the CPU only");
  EXPECT_ERROR(rope_table(bench.stream(), y, y, {}), Usage, "rope_table: f64 runs on the CPU only");
}

TEST_F(ElementsCuda, AddIsThatOfTheCpu) {
  for (const Shape& shape : kMatrices) {
    expect_like_cpu({sized("add", shape), {out(shape), in(shape), in(shape)}, [](Stream& s, T t) {
                       add(s, t[0], t[1], t[2]);
                     }});
    expect_like_cpu({sized("add in place", shape), {changed(shape), in(shape)}, [](Stream& s, T t) {
                       add(s, t[0], t[0], t[1]);
                     }});
  }
}

TEST_F(ElementsCuda, SwigluIsThatOfTheCpu) {
  for (const Shape& shape : kMatrices) {
    const Shape wide = {shape[0], 2 * shape[1]};
    expect_like_cpu({sized("swiglu", shape), {out(shape), in(wide, 3)}, [](Stream& s, T t) {
                       swiglu(s, t[0], t[1]);
                     }});
    expect_like_cpu({sized("swiglu_backward", shape),
                     {out(wide), in(shape), in(wide, 3)},
                     [](Stream& s, T t) { swiglu_backward(s, t[0], t[1], t[2]); }});
    expect_like_cpu({sized("swiglu_backward in place", shape),
                     {changed(wide), in(shape)},
                     [](Stream& s, T t) { swiglu_backward(s, t[0], t[1], t[0]); }});
  }
}

// An element that one of them drops and the other keeps would be far off.
TEST_F(ElementsCuda, DropoutHasTheMasksOfTheCpu) {
  for (const Shape& shape : kMatrices)
    for (const int64_t first_feature : {0, 6}) {
      const CudaTensor step{Role::Double, {1}, Use::In, 0, 12};
      expect_like_cpu(
          {sized("dropout", shape),
           {out(shape), in(shape), whole({shape[0]}, some_below(shape[0], 1 << 20)), step},
           [=](Stream& s, T t) {
             dropout(s, t[0], t[1], t[2], t[3], {5, "mask", 0.3, first_feature});
           }});
    }
}

TEST_F(ElementsCuda, DropoutReportsTheFirstBadToken) {
  Workbench bench(1, DeviceKind::Cuda);
  Tensor x = bench.random<float>({4, 40}, "x"), y = bench.empty<float>({4, 40});
  const Tensor tokens = bench.make<int32_t>({4}, {3, -5, 2, -1});
  dropout(bench.stream(), y, x, tokens, bench.make<double>({1}, {-1}), {1, "mask", 0.5, 0});
  EXPECT_ERROR(bench.stream().check_data(), Usage,
               "dropout: token index -5 at row 1, must not be negative");
  dropout(bench.stream(), y, x, bench.make<int32_t>({4}, {0, 1, 2, 3}),
          bench.make<double>({1}, {-1}), {1, "mask", 0.5, 0});
  EXPECT_ERROR(bench.stream().check_data(), Usage, "dropout: step=-1, must not be negative");
}

const DType kCastTypes[] = {DType::F64, DType::F32,    DType::BF16,
                            DType::F16, DType::F8E4M3, DType::F8E5M2};

// Bits, of values of all sizes and of both infinities.
TEST_F(ElementsCuda, CastHasTheBitsOfTheCpu) {
  const int64_t count = 5003;
  for (const DType from : kCastTypes)
    for (const DType to : kCastTypes)
      for (const Rounding rounding : {Rounding::NearestEven, Rounding::Stochastic})
        for (const int64_t shift : {0, 1}) {
          std::vector<double> values(count);
          const Random random(3, "values");
          for (size_t i = 0; i < values.size(); ++i)
            values[i] = random.normal(i) * std::pow(2.0, static_cast<double>(i % 60) - 30);
          values[5] = std::numeric_limits<double>::infinity();
          values[6] = -values[5];
          const std::vector<std::byte> bytes =
              cuda_cases::converted(from, DType::F64, std::as_bytes(std::span(values)));
          std::vector<std::byte> results[2];
          for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
            Workbench bench(1, device);
            Tensor x = cuda_cases::make(bench, from, {count}, shift);
            Tensor y = cuda_cases::make(bench, to, {count}, shift);
            copy_bytes_from_host(bench.stream(), x, bytes);
            cast(bench.stream(), y, x, rounding, 17, 8 + 3 * shift);
            results[device == DeviceKind::Cuda] = bench.bytes(y);
          }
          EXPECT_TRUE(results[0] == results[1])
              << name_of(from) << " to " << name_of(to) << " off by " << shift
              << (rounding == Rounding::Stochastic ? " by chance" : "");
        }
}

TEST_F(ElementsCuda, FillsAreThoseOfTheCpu) {
  for (const int64_t first : {0, 3, 1000000007}) {
    std::vector<float> results[2];
    for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
      Workbench bench(1, device);
      Tensor y = bench.random<float>({1001}, "before");
      fill_normal(bench.stream(), y, 9, "weight", 0.02, first);
      results[device == DeviceKind::Cuda] = bench.read<float>(y);
    }
    expect_close(results[1], results[0], 1e-7, "normal values");
  }
  Workbench bench(1, DeviceKind::Cuda);
  Tensor y = bench.random<float>({1001}, "before");
  fill_constant(bench.stream(), y, 0.75);
  EXPECT_EQ(bench.read<float>(y), std::vector<float>(1001, 0.75F));
}

const Heads kHeadShapes[] = {
    {2, 3, 4, 2, 4}, {1, 33, 6, 6, 64}, {2, 9, 8, 2, 128}, {1, 5, 3, 1, 10}};

TEST_F(ElementsCuda, RopeIsThatOfTheCpu) {
  for (const Heads& heads : kHeadShapes) {
    const Shape qkv = {heads.tokens(), heads.qkv_width()}, table = {40, heads.head_dim / 2};
    for (const RopeDirection direction : {RopeDirection::Forward, RopeDirection::Backward})
      expect_like_cpu({"rope with head_dim " + std::to_string(heads.head_dim),
                       {changed(qkv), whole({heads.tokens()}, some_below(heads.tokens(), 40)),
                        statistics(table, Use::In, 1, 0), statistics(table, Use::In, 1, 0)},
                       [=](Stream& s, T t) { rope(s, t[0], t[1], t[2], t[3], heads, direction); }});
  }
}

TEST_F(ElementsCuda, RopeTableIsThatOfTheCpuAlsoFarOut) {
  for (const RopeFrequencies& frequencies :
       {RopeFrequencies{}, RopeFrequencies{500000, 8, 1, 4, 8192},
        RopeFrequencies{.factor = 4, .slowing = RopeSlowing::Yarn, .attention_factor = 1.25}})
    for (const Shape& table : {Shape{3000, 64}, Shape{5, 300}})
      expect_like_cpu({"rope_table",
                       {statistics(table, Use::Out), statistics(table, Use::Out)},
                       [=](Stream& s, T t) { rope_table(s, t[0], t[1], frequencies); }});
}

TEST_F(ElementsCuda, RopeReportsTheFirstBadPositionAndUsesTheNearestRow) {
  const Heads heads{1, 3, 1, 1, 16};
  std::vector<float> results[2];
  for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
    Workbench bench(1, device);
    Tensor qkv = bench.random<float>({3, heads.qkv_width()}, "qkv");
    const Tensor cos = bench.random<float>({4, 8}, "cos"), sin = bench.random<float>({4, 8}, "sin");
    rope(bench.stream(), qkv, bench.make<int32_t>({3}, {1, 4, -2}), cos, sin, heads,
         RopeDirection::Forward);
    EXPECT_ERROR(bench.stream().check_data(), Usage,
                 "rope: position 4 of token 1, the table has 4");
    results[device == DeviceKind::Cuda] = bench.read<float>(qkv);
  }
  expect_close(results[1], results[0], 1e-6, "qkv");
}

TEST_F(ElementsCuda, CopiesOfHeadsAreThoseOfTheCpu) {
  for (const Heads& heads : kHeadShapes) {
    const std::string size = " with head_dim " + std::to_string(heads.head_dim);
    const Shape qkv = {heads.tokens(), heads.qkv_width()}, kv = {heads.tokens(), heads.kv_width()};
    expect_like_cpu({"pack_kv" + size, {out(kv), in(qkv)}, [=](Stream& s, T t) {
                       pack_kv(s, t[0], t[1], heads);
                     }});
    expect_like_cpu({"unpack_kv" + size, {changed(qkv), in(kv)}, [=](Stream& s, T t) {
                       unpack_kv(s, t[0], t[1], heads);
                     }});
    const int64_t copies = heads.group();
    const Shape repeated = {heads.tokens(), heads.out_width() + copies * heads.kv_width()};
    expect_like_cpu({"repeat_kv" + size, {out(repeated), in(qkv)}, [=](Stream& s, T t) {
                       repeat_kv(s, t[0], t[1], heads, copies);
                     }});
    expect_like_cpu({"repeat_kv_backward" + size, {out(qkv), in(repeated)}, [=](Stream& s, T t) {
                       repeat_kv_backward(s, t[0], t[1], heads, copies);
                     }});
  }
  for (const int64_t width : {1, 3, 8, 100}) {
    const Shape x = {11, 3 * width}, parts = {3, 11, width};
    expect_like_cpu({"split_heads of " + std::to_string(width),
                     {out(parts), in(x)},
                     [](Stream& s, T t) { split_heads(s, t[0], t[1]); }});
    expect_like_cpu({"join_heads of " + std::to_string(width),
                     {out(x), in(parts)},
                     [](Stream& s, T t) { join_heads(s, t[0], t[1]); }});
  }
}

TEST_F(ElementsCuda, CopiesOfTokensAreThoseOfTheCpu) {
  const std::vector<TokenChunk> chunks = {{1, 4, 2}, {4, 1, 1}, {5, 0, 0}};
  for (const int64_t width : {1, 5, 64}) {
    const Shape whole = {12, width}, parts = {3, 4, width};
    expect_like_cpu({"join_sequence", {out(whole), in(parts)}, [](Stream& s, T t) {
                       join_sequence(s, t[0], t[1], 2);
                     }});
    expect_like_cpu({"split_sequence", {out(parts), in(whole)}, [](Stream& s, T t) {
                       split_sequence(s, t[0], t[1], 2);
                     }});
    expect_like_cpu({"gather_chunks", {changed(whole), in(parts)}, [=](Stream& s, T t) {
                       gather_chunks(s, t[0], t[1], 2, TokenChunks(chunks));
                     }});
    expect_like_cpu({"scatter_chunks", {changed(parts), in(whole)}, [=](Stream& s, T t) {
                       scatter_chunks(s, t[0], t[1], 2, TokenChunks(chunks));
                     }});
  }
}

}  // namespace
}  // namespace sextant
