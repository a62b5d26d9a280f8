// fp8 ops on a GPU against the CPU: codes, scales and histories bit by bit, fp8_products by error.
#include <cmath>

#include "ops/delayed_amax.h"
#include "ops/linear.h"
#include "support/fp8_on_gpu.h"

namespace sextant {
namespace {

constexpr ScaleBlock kGpuBlocks[] = {{0, 0}, {1, 128}, {128, 1}, {128, 128}, {128, 1, 75}};

TEST_F(Fp8Cuda, CodesAndScalesAreThoseOfTheCpu) {
  for (const DType from : {DType::F32, DType::BF16, DType::F16})
    for (const DType to : {DType::F8E4M3, DType::F8E5M2})
      for (const ScaleBlock& block : kGpuBlocks)
        for (const Shape& shape : {Shape{150, 260}, {1, 7}, {300, 640}, {16, 256}}) {
          if (block.part_rows > 0 && shape[0] % block.part_rows != 0) continue;
          expect_same_bytes(fp8_text(shape, from, to, block), [&](Workbench& bench) {
            const Tensor x = same_normals(bench, from, shape, "x", 3);
            Tensor amax = poisoned(bench, DType::F32, block.grid(shape));
            Tensor q = poisoned(bench, to, shape);
            block_amax(bench.stream(), amax, x, block);
            quantize(bench.stream(), q, x, amax, block);
            return std::vector{amax, q};
          });
        }
}

TEST_F(Fp8Cuda, BlocksOfWeightsAreThoseOfTheCpu) {
  for (const DType from : {DType::F32, DType::BF16, DType::F16})
    for (const DType to : {DType::F8E4M3, DType::F8E5M2})
      for (const Shape& shape : {Shape{150, 260}, {128, 128}, {300, 648}, {16, 256}})
        expect_same_bytes(fp8_text(shape, from, to, kWeightBlock), [&](Workbench& bench) {
          const Tensor x = same_normals(bench, from, shape, "x", 3);
          Tensor amax = poisoned(bench, DType::F32, kWeightBlock.grid(shape));
          Tensor q = poisoned(bench, to, shape);
          quantize_blocks(bench.stream(), q, amax, x);
          return std::vector{amax, q};
        });
}

TEST_F(Fp8Cuda, PiecesAreThoseOfTheCpu) {
  for (const ScaleBlock& block : {kGpuBlocks[0], kGpuBlocks[1], kGpuBlocks[2], kGpuBlocks[3]})
    for (const int64_t first : {0, 8, 1003, 33001})
      expect_same_bytes("piece from " + std::to_string(first), [&](Workbench& bench) {
        const Shape whole{150, 256};
        const Tensor x = same_normals(bench, DType::F32, {1, 4096}, "x");
        Tensor amax = poisoned(bench, DType::F32, block.grid(whole));
        Tensor q = poisoned(bench, DType::F8E4M3, x.shape());
        block_amax(bench.stream(), amax, x, block, {whole, first});
        quantize(bench.stream(), q, x, amax, block, {whole, first});
        return std::vector{amax, q};
      });
}

TEST_F(Fp8Cuda, ShowsWhatIsNotFiniteAndSaturatesTheRest) {
  Workbench gpu(1, DeviceKind::Cuda);
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = gpu.make<float>({1, 6}, {1, -3, 3e38F, infinity, -0.0F, NAN});
  const Tensor amax = gpu.make<float>({1, 1}, {2});
  Tensor q = gpu.arena().allocate(Category::Activations, DType::F8E4M3, {1, 6});
  quantize(gpu.stream(), q, x, amax, {});
  std::vector<float> codes(6);
  copy_floats_to_host(gpu.stream(), codes, q);
  EXPECT_EQ(codes[0], 224);
  EXPECT_EQ(codes[1], -448);
  EXPECT_EQ(codes[2], 448);
  EXPECT_TRUE(std::isnan(codes[3]));
  EXPECT_TRUE(std::signbit(codes[4]));
  EXPECT_TRUE(std::isnan(codes[5]));
  Tensor found = gpu.empty<float>({1, 1});
  block_amax(gpu.stream(), found, x, {});
  EXPECT_TRUE(std::isnan(gpu.read<float>(found)[0]));
}

TEST_F(Fp8Cuda, HistoriesAreThoseOfTheCpu) {
  for (const int64_t steps : {1, 3, 256, 257, 1024})
    expect_same_bytes("history of " + std::to_string(steps), [&](Workbench& bench) {
      Tensor state = same_normals(bench, DType::F32, {5, 1 + steps}, "state");
      Tensor found = bench.make<float>({5}, {4, 0, NAN, INFINITY, 1e-3F});
      for (int i = 0; i < 3; ++i) update_delayed_amax(bench.stream(), state, found, i);
      Tensor amax = bench.make<float>({1, 1}, {9}), most = bench.make<float>({1, 1}, {3});
      const Tensor used = bench.make<float>({1, 1}, {7});
      take_delayed_amax(bench.stream(), amax, most, used, WithAmax::Used);
      return std::vector{state, amax, most};
    });
}

// An operand of a product with the amax of its blocks.
struct GpuOperand {
  Tensor q, amax;
};
GpuOperand gpu_operand(Workbench& bench, const Shape& shape, std::string_view name, DType dtype,
                       const ScaleBlock& block) {
  const Tensor x = same_normals(bench, DType::F32, shape, name);
  GpuOperand out{poisoned(bench, dtype, shape), poisoned(bench, DType::F32, block.grid(shape))};
  block_amax(bench.stream(), out.amax, x, block);
  quantize(bench.stream(), out.q, x, out.amax, block);
  return out;
}

struct Fp8Product {
  int64_t m, n, k;
  bool ta, tb;
  DType type_a, type_b;
  ScaleBlock block_a, block_b;
};

// The three fp8_products of a linear layer with each recipe, operands as they lie on CPU and GPU.
std::vector<Fp8Product> fp8_products(int64_t m, int64_t n, int64_t k) {
  constexpr DType kIn = DType::F8E4M3, kOut = DType::F8E5M2;
  return {{m, n, k, false, true, kIn, kIn, {}, {}},
          {m, n, k, false, false, kOut, kIn, {}, {}},
          {m, n, k, true, false, kOut, kIn, {}, {}},
          {m, n, k, false, true, kOut, kIn, {}, {}},
          {m, n, k, false, true, kIn, kIn, kGpuTile, kWeightBlock},
          {m, n, k, false, false, kIn, kIn, kGpuTile, kWeightBlock},
          {m, n, k, true, false, kIn, kIn, kGpuColumnTile, kGpuColumnTile},
          {m, n, k, false, true, kIn, kIn, kGpuTile, kGpuTile}};
}

std::string fp8_text(const Fp8Product& p) {
  return std::to_string(p.m) + " x " + std::to_string(p.n) + " x " + std::to_string(p.k) + " " +
         std::to_string(p.ta) + std::to_string(p.tb) + " " + std::string(name_of(p.type_a)) +
         " in " + std::to_string(p.block_a.rows) + " x " + std::to_string(p.block_a.columns);
}

Tensor fp8_multiply(Workbench& bench, const Fp8Product& p, Tensor c, Epilogue epilogue) {
  const GpuOperand a =
      gpu_operand(bench, p.ta ? Shape{p.k, p.m} : Shape{p.m, p.k}, "a", p.type_a, p.block_a);
  const GpuOperand b =
      gpu_operand(bench, p.tb ? Shape{p.n, p.k} : Shape{p.k, p.n}, "b", p.type_b, p.block_b);
  epilogue.amax_a = a.amax;
  epilogue.amax_b = b.amax;
  epilogue.block_a = p.block_a;
  epilogue.block_b = p.block_b;
  matmul(bench.stream(), c, a.q, p.ta ? Transpose::Yes : Transpose::No, b.q,
         p.tb ? Transpose::Yes : Transpose::No, epilogue);
  return c;
}

// With odd sizes the kernel of ours forms the same chains.
TEST_F(Fp8Cuda, OddProductsHaveTheBitsOfTheCpu) {
  for (const auto& [m, n, k] : {std::tuple{45, 70, 290}, {1, 3, 5}, {130, 17, 128}})
    for (const Fp8Product& p : fp8_products(m, n, k))
      expect_same_bytes(fp8_text(p), [&](Workbench& bench) {
        return std::vector{fp8_multiply(bench, p, poisoned(bench, DType::F32, {p.m, p.n}), {})};
      });
  Fp8Product gathered{
      45, 70, 290, true, false, DType::F8E4M3, DType::F8E4M3, {128, 1, 145}, {128, 1, 145}};
  expect_same_bytes("gathered", [&](Workbench& bench) {
    return std::vector{fp8_multiply(bench, gathered, poisoned(bench, DType::F32, {45, 70}), {})};
  });
}

// By cuBLASLt. Tensor cores add 32 products at a time to a sum of which they keep 14 bits and drop
// the rest: each time the sum loses up to 2^-13 of its size. Sums of two E4M3 operands with one
// scale stay there, others are added up in f32 after 128 products at most. Of the largest result.
double sum_tolerance(const Fp8Product& p) {
  const bool is_fast = p.block_a == ScaleBlock{} && p.type_a == DType::F8E4M3;
  const auto additions = static_cast<double>(is_fast ? (p.k + 31) / 32 : 4);
  return additions * 0x1p-13 + 1e-5;
}

TEST_F(Fp8Cuda, ProductsAreNearThoseOfTheCpu) {
  for (const auto& [m, n, k] :
       {std::tuple{16, 32, 48}, {256, 384, 512}, {128, 640, 1040}, {400, 256, 2048}})
    for (const Fp8Product& p : fp8_products(m, n, k))
      for (const DType type : {DType::F32, DType::BF16})
        for (const Write write : {Write::Replace, Write::Add}) {
          const auto run = [&](DeviceKind device) {
            Workbench bench(2, device, kFp8CaseBytes);
            Tensor c = same_normals(bench, type, {p.m, p.n}, "c");
            fp8_multiply(bench, p, c, {.write = write});
            std::vector<float> values(static_cast<size_t>(c.elements()));
            copy_floats_to_host(bench.stream(), values, c);
            return std::vector<double>(values.begin(), values.end());
          };
          cuda_cases::expect_near(run(DeviceKind::Cuda), run(DeviceKind::Cpu),
                                  sum_tolerance(p) + (type == DType::BF16 ? 0x1p-7 : 0),
                                  fp8_text(p));
        }
}

TEST_F(Fp8Cuda, EndsAreNearThoseOfTheCpu) {
  for (const auto& [m, n, k] : {std::tuple{256, 384, 512}, {45, 70, 290}})
    for (const Fp8Product& p : fp8_products(m, n, k))
      for (const Activation activation :
           {Activation::None, Activation::GeluTanh, Activation::GeluExact})
        for (const bool is_backward : {false, true}) {
          if (is_backward && activation == Activation::None) continue;
          const auto run = [&](DeviceKind device) {
            Workbench bench(2, device, kFp8CaseBytes);
            const Shape shape{p.m, p.n};
            Tensor c = poisoned(bench, DType::BF16, shape), before;
            Epilogue epilogue{.activation = activation};
            if (is_backward) {
              epilogue.backward_of = same_normals(bench, DType::BF16, shape, "before");
            } else {
              epilogue.bias = same_normals(bench, DType::BF16, {p.n}, "bias", 10);
              if (activation != Activation::None)
                before = epilogue.pre_activation = poisoned(bench, DType::BF16, shape);
            }
            fp8_multiply(bench, p, c, epilogue);
            std::vector<double> all;
            for (const Tensor& tensor : {c, before}) {
              if (!tensor) continue;
              std::vector<float> values(static_cast<size_t>(tensor.elements()));
              copy_floats_to_host(bench.stream(), values, tensor);
              all.insert(all.end(), values.begin(), values.end());
            }
            return all;
          };
          cuda_cases::expect_near(run(DeviceKind::Cuda), run(DeviceKind::Cpu), 2e-2, fp8_text(p));
        }
}

TEST_F(Fp8Cuda, BiasGradientsAreNearThoseOfTheCpu) {
  for (const auto& [rows, columns] : {std::tuple{400, 272}, {33, 70}, {1024, 1600}})
    for (const DType dtype : {DType::F8E4M3, DType::F8E5M2})
      for (const ScaleBlock& block : {ScaleBlock{}, kGpuColumnTile})
        for (const Write write : {Write::Replace, Write::Add}) {
          const auto run = [&](DeviceKind device) {
            Workbench bench(2, device, kFp8CaseBytes);
            const GpuOperand dy = gpu_operand(bench, {rows, columns}, "dy", dtype, block);
            const GpuOperand x = gpu_operand(bench, {rows, 32}, "x", DType::F8E4M3, block);
            Tensor dw = poisoned(bench, DType::F32, {columns, 32});
            Tensor db = same_normals(bench, DType::F32, {columns}, "db");
            if (write == Write::Add) dw = same_normals(bench, DType::F32, {columns, 32}, "dw");
            linear_backward_weight(
                bench.stream(), dw, db, dy.q, x.q, write,
                {.amax_a = dy.amax, .amax_b = x.amax, .block_a = block, .block_b = block});
            const std::vector<float> sums = bench.read<float>(db);
            return std::vector<double>(sums.begin(), sums.end());
          };
          cuda_cases::expect_near(run(DeviceKind::Cuda), run(DeviceKind::Cpu), 1e-5,
                                  "sums of rows");
        }
}

}  // namespace
}  // namespace sextant
