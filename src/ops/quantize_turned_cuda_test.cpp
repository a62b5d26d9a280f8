// Both forms of an fp8 operand on a GPU against the CPU, and what is computed in the same reading.
#include "ops/quantize_turned.h"

#include <cmath>

#include "support/fp8_on_gpu.h"

namespace sextant {
namespace {

TEST_F(Fp8Cuda, TurnedFormsAreThoseOfTheCpu) {
  for (const DType from : {DType::F32, DType::BF16, DType::F16})
    for (const DType to : {DType::F8E4M3, DType::F8E5M2})
      for (const Shape& shape : {Shape{16, 16}, {144, 272}, {256, 128}, {400, 1600}})
        for (const bool has_rows : {true, false}) {
          expect_same_bytes(fp8_text(shape, from, to, {}), [&](Workbench& bench) {
            const Tensor x = same_normals(bench, from, shape, "x", 3);
            Tensor amax = poisoned(bench, DType::F32, {1, 1});
            Tensor q = has_rows ? poisoned(bench, to, shape) : Tensor();
            Tensor turned = poisoned(bench, to, {shape[1], shape[0]});
            block_amax(bench.stream(), amax, x, {});
            quantize_turned(bench.stream(), q, turned, amax, x);
            // Delayed, with a value found before that is larger or smaller.
            Tensor again = poisoned(bench, to, {shape[1], shape[0]});
            Tensor used = bench.make<float>({1, 1}, {2}),
                   taken = poisoned(bench, DType::F32, {1, 1});
            Tensor found = bench.make<float>({1, 1}, {has_rows ? 0.5F : 1e6F});
            quantize_turned(bench.stream(), q, again, taken, x, {.delayed = {used, found}});
            std::vector<Tensor> out = {amax, turned, again, taken, found};
            if (q) out.push_back(q);
            return out;
          });
          expect_same_bytes(fp8_text(shape, from, to, kGpuTile), [&](Workbench& bench) {
            const Tensor x = same_normals(bench, from, shape, "x", 3);
            const Shape over{shape[1], shape[0]};
            Tensor turned = poisoned(bench, to, over), amax, q;
            Tensor turned_amax = poisoned(bench, DType::F32, kGpuTile.grid(over));
            if (has_rows) {
              q = poisoned(bench, to, shape);
              amax = poisoned(bench, DType::F32, kGpuTile.grid(shape));
            }
            quantize_turned_tiles(bench.stream(), q, amax, turned, turned_amax, x);
            std::vector<Tensor> out = {turned, turned_amax};
            if (has_rows) out.insert(out.end(), {q, amax});
            return out;
          });
        }
}

TEST_F(Fp8Cuda, RowsAloneAreThoseOfBothForms) {
  expect_same_bytes("rows alone", [](Workbench& bench) {
    const Tensor x = same_normals(bench, DType::BF16, {144, 272}, "x", 3);
    Tensor q = poisoned(bench, DType::F8E4M3, x.shape()), none,
           amax = bench.make<float>({1, 1}, {7});
    Tensor tiles = poisoned(bench, DType::F8E4M3, x.shape()), no_amax;
    Tensor of_tiles = poisoned(bench, DType::F32, kGpuTile.grid(x.shape()));
    quantize_turned(bench.stream(), q, none, amax, x);
    quantize_turned_tiles(bench.stream(), tiles, of_tiles, none, no_amax, x);
    return std::vector{q, tiles, of_tiles};
  });
}

// On a GPU too an operand that is made while it is read has the bits of one that was stored.
TEST_F(Fp8Cuda, ActivatedFormsAreThoseOfStoredOnes) {
  Workbench gpu(1, DeviceKind::Cuda, kFp8CaseBytes);
  const Shape shape{144, 272}, over{272, 144};
  const Tensor x = same_normals(gpu, DType::BF16, shape, "x", 3);
  const Tensor before = same_normals(gpu, DType::BF16, shape, "before", 2);
  for (const Activation activation : {Activation::GeluTanh, Activation::GeluExact})
    for (const bool is_backward : {false, true}) {
      const Activated activated{activation, is_backward ? before : Tensor()};
      Tensor stored = poisoned(gpu, DType::BF16, shape);
      activate(gpu.stream(), stored, x, activated);
      const auto forms = [&](const Tensor& from, const Activated& by) {
        Tensor q = poisoned(gpu, DType::F8E4M3, shape), turned = poisoned(gpu, q.dtype(), over);
        Tensor amax = poisoned(gpu, DType::F32, {1, 1});
        if (by.activation == Activation::None)
          block_amax(gpu.stream(), amax, from, {});
        else
          activated_amax(gpu.stream(), amax, from, by);
        quantize_turned(gpu.stream(), q, turned, amax, from, {.activated = by});
        return AllBytes{gpu.bytes(amax), gpu.bytes(q), gpu.bytes(turned)};
      };
      EXPECT_TRUE(forms(x, activated) == forms(stored, {})) << is_backward;
    }
}

// GELU and its derivative differ in their last bits between the devices, so a value may be rounded
// to the next number of bf16, and the next code: seldom, as the distance is 2^-18 of a step.
TEST_F(Fp8Cuda, ActivatedFormsAreNearThoseOfTheCpu) {
  const Shape shape{144, 272}, over{272, 144};
  const auto run = [&](DeviceKind device, Activation activation, bool is_backward) {
    Workbench bench(2, device, kFp8CaseBytes);
    const Tensor x = same_normals(bench, DType::BF16, shape, "x", 3);
    Activated activated{activation, {}};
    if (is_backward) activated.backward_of = same_normals(bench, DType::BF16, shape, "before", 2);
    Tensor amax = poisoned(bench, DType::F32, {1, 1}), used = bench.make<float>({1, 1}, {8});
    activated_amax(bench.stream(), amax, x, activated);
    Tensor q = poisoned(bench, DType::F8E4M3, shape), turned = poisoned(bench, DType::F8E4M3, over);
    Tensor tiles = poisoned(bench, DType::F8E4M3, shape);
    Tensor turned_tiles = poisoned(bench, DType::F8E4M3, over);
    Tensor of_tiles = poisoned(bench, DType::F32, kGpuTile.grid(shape));
    Tensor of_turned = poisoned(bench, DType::F32, kGpuTile.grid(over));
    quantize_turned(bench.stream(), q, turned, used, x, {.activated = activated});
    quantize_turned_tiles(bench.stream(), tiles, of_tiles, turned_tiles, of_turned, x,
                          {.activated = activated});
    std::vector<std::vector<float>> out;
    for (const Tensor& tensor : {amax, of_tiles, of_turned, q, turned, tiles, turned_tiles}) {
      out.emplace_back(static_cast<size_t>(tensor.elements()));
      copy_floats_to_host(bench.stream(), out.back(), tensor);
    }
    return out;
  };
  for (const Activation activation : {Activation::GeluTanh, Activation::GeluExact})
    for (const bool is_backward : {false, true}) {
      const auto cpu = run(DeviceKind::Cpu, activation, is_backward),
                 gpu = run(DeviceKind::Cuda, activation, is_backward);
      for (size_t i = 0; i < cpu.size(); ++i) {
        const float step = i < 3 ? 0x1p-7F : 0x1p-3F;  // of bf16, of E4M3
        size_t other = 0;
        for (size_t at = 0; at < cpu[i].size(); ++at) {
          other += gpu[i][at] != cpu[i][at];
          EXPECT_NEAR(gpu[i][at], cpu[i][at], step * std::abs(cpu[i][at]) + 0x1p-9F)
              << i << " " << at;
        }
        EXPECT_LE(other, cpu[i].size() / 100) << i;
      }
    }
}

TEST_F(Fp8Cuda, SumsOfTurnedTilesAreNearThoseOfTheCpu) {
  for (const auto& [rows, columns] : {std::tuple{400, 272}, {16, 16}, {1024, 1600}})
    for (const DType dtype : {DType::F8E4M3, DType::F8E5M2})
      for (const bool has_tiles : {false, true})
        for (const DType grads : {DType::F32, DType::BF16}) {
          const auto run = [&](DeviceKind device) {
            Workbench bench(2, device, kFp8CaseBytes);
            const Tensor dy = same_normals(bench, DType::BF16, {rows, columns}, "dy", 3);
            Tensor turned = poisoned(bench, dtype, {columns, rows}), none, no_amax;
            Tensor sums = poisoned(bench, DType::F32, {turned_tiles(rows), columns});
            if (has_tiles) {
              Tensor amax = poisoned(bench, DType::F32, kGpuTile.grid(turned.shape()));
              quantize_turned_tiles(bench.stream(), none, no_amax, turned, amax, dy,
                                    {.sums = sums});
            } else {
              Tensor amax = bench.make<float>({1, 1}, {9});
              quantize_turned(bench.stream(), none, turned, amax, dy, {.sums = sums});
            }
            Tensor db = same_normals(bench, grads, {columns}, "db");
            sum_turned_tiles(bench.stream(), db, sums, Write::Add);
            std::vector<double> all;
            for (const Tensor& tensor : {sums, db}) {
              std::vector<float> values(static_cast<size_t>(tensor.elements()));
              copy_floats_to_host(bench.stream(), values, tensor);
              all.insert(all.end(), values.begin(), values.end());
            }
            return all;
          };
          cuda_cases::expect_near(run(DeviceKind::Cuda), run(DeviceKind::Cpu),
                                  grads == DType::BF16 ? 0x1p-7 : 1e-5, "sums of tiles");
        }
}

}  // namespace
}  // namespace sextant
