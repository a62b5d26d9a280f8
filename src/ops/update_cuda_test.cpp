#include "ops/adamw.h"
#include "ops/sgd.h"
#include "ops/sum.h"
#include "support/cuda_cases.h"
#include "support/expect_error.h"
#include "support/update.h"

namespace sextant {
namespace {

using T = std::span<Tensor>;

class UpdateCuda : public CudaTest {};

TEST_F(UpdateCuda, SumsAreThoseOfTheCpu) {
  const CudaTensor sum_out{Role::Double, {1}, Use::Out}, sum_both{Role::Double, {1}, Use::InOut};
  for (const int64_t count : {1, 3, 65, 1000, 50257, 16384 * 3 + 5}) {
    const auto test = [&](const char* name, const CudaTensor& to, auto call) {
      // An offset keeps the sum from vanishing.
      CudaCase one{
          std::string(name) + " of " + std::to_string(count), {to, in({count}, 1, 2)}, call};
      one.noise = 1e-12;
      expect_like_cpu(one);
    };
    test("sum", sum_out, [](Stream& s, T t) { sum(s, t[0], t[1], Write::Replace); });
    test("sum added", sum_both, [](Stream& s, T t) { sum(s, t[0], t[1], Write::Add); });
    test("sum_of_squares", sum_out, [](Stream& s, T t) { sum_of_squares(s, t[0], t.subspan(1)); });
  }
}

// More tensors than one launch takes, one of them empty.
TEST_F(UpdateCuda, SumOfSquaresOfManyTensorsIsThatOfTheCpu) {
  CudaCase test{"sum_of_squares of many", {{Role::Double, {1}, Use::Out}}, [](Stream& s, T t) {
                  sum_of_squares(s, t[0], t.subspan(1));
                }};
  for (int64_t i = 0; i < 300; ++i) test.tensors.push_back(in({i * 7 % 40}));
  test.tensors.push_back(in({100000}));
  test.noise = 1e-12;
  expect_like_cpu(test);
  Workbench bench(1, DeviceKind::Cuda);
  Tensor out = bench.make<double>({1}, {3});
  sum_of_squares(bench.stream(), out, {});
  EXPECT_EQ(bench.read<double>(out), std::vector<double>{0});
}

TEST_F(UpdateCuda, ClipIsThatOfTheCpuAlsoOfBadNorms) {
  for (const double squares : {4.0, 0.0, 1e300, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()})
    for (const double limit : {0.0, 1.0}) {
      std::vector<double> results[2];
      for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
        Workbench bench(1, device);
        Tensor scalars = update_scalars(bench, 0.5, 0.25, 0.125, 7, 7);
        clip(bench.stream(), scalars, bench.make<double>({1}, {squares}), limit);
        results[device == DeviceKind::Cuda] = bench.read<double>(scalars);
      }
      EXPECT_EQ(results[0], results[1]) << squares << " with a limit of " << limit;
    }
}

// Weight and state of one part, by name, so that both devices have the same.
template <class W, class M, class G>
AdamWPart make_part(Workbench& bench, int64_t count, int64_t shift, const std::string& name,
                    bool has_master) {
  const auto make = [&](DType type, const char* what, double scale, double offset) {
    const CudaTensor like{Role::Compute, {count}, Use::In, scale, offset};
    Tensor tensor = cuda_cases::make(bench, type, {count}, shift);
    copy_bytes_from_host(bench.stream(), tensor,
                         cuda_cases::before(like, type, type, name + what).own);
    return tensor;
  };
  AdamWPart part;
  part.weight = make(kDTypeOf<W>, "weight", 1, 0);
  part.first_moment = make(kDTypeOf<M>, "first", 1, 0);
  part.second_moment = make(kDTypeOf<M>, "second", 0.1, 1);
  part.gradient = make(kDTypeOf<G>, "gradient", 1, 0);
  if (has_master) part.master = make(DType::F32, "weight", 1, 0);
  part.weight_decay = 0.1;
  part.name = stable_hash(name);
  part.index = {12 + shift, 0, 1, 1};
  return part;
}

template <class W, class M, class G>
void expect_adamw_bits(bool has_master) {
  std::vector<std::byte> results[2];
  for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
    Workbench bench(1, device);
    std::vector<AdamWPart> parts;
    for (int i = 0; i < 120; ++i)
      parts.push_back(make_part<W, M, G>(bench, i % 7 == 0 ? 9001 : 1 + i, i % 3, std::to_string(i),
                                         has_master));
    AdamWSettings settings;
    settings.seed = 99;
    // The first is skipped.
    adamw(bench.stream(), parts, update_scalars(bench, 0.1, 0.1, 0.05, 0.5, 0), settings);
    adamw(bench.stream(), parts, update_scalars(bench, 0.01, 0.1, 0.05, 0.5, 1), settings);
    for (const AdamWPart& part : parts)
      for (const Tensor& tensor :
           {part.weight, part.first_moment, part.second_moment, part.gradient, part.master})
        if (tensor) {
          const std::vector<std::byte> bytes = bench.bytes(tensor);
          auto& all = results[device == DeviceKind::Cuda];
          all.insert(all.end(), bytes.begin(), bytes.end());
        }
  }
  EXPECT_TRUE(results[0] == results[1])
      << name_of(kDTypeOf<W>) << " weights, " << name_of(kDTypeOf<M>) << " moments, "
      << name_of(kDTypeOf<G>) << " gradients" << (has_master ? ", a master" : "");
}

// In f32 to the last bit: the same operations in the same order.
TEST_F(UpdateCuda, AdamWHasTheBitsOfTheCpu) {
  expect_adamw_bits<float, float, float>(false);
}

TEST_F(UpdateCuda, AdamWOfNarrowTypesHasTheBitsOfTheCpu) {
  expect_adamw_bits<bf16, float, float>(true);
  expect_adamw_bits<bf16, float, bf16>(true);
  expect_adamw_bits<f16, float, f16>(true);
  expect_adamw_bits<bf16, bf16, float>(true);
  expect_adamw_bits<bf16, float, bf16>(false);
  expect_adamw_bits<f16, bf16, float>(false);
  expect_adamw_bits<float, bf16, float>(false);
}

TEST_F(UpdateCuda, SgdHasTheBitsOfTheCpu) {
  for (const double momentum : {0.0, 0.9}) {
    std::vector<std::vector<float>> results[2];
    for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
      Workbench bench(1, device);
      std::vector<SgdPart> parts;
      for (int i = 0; i < 90; ++i) {
        const Shape shape = {i % 7 == 0 ? 9001 : 1 + i};
        const std::string name = std::to_string(i);
        parts.push_back({bench.random<float>(shape, name + "weight"),
                         momentum == 0 ? Tensor() : bench.random<float>(shape, name + "velocity"),
                         bench.random<float>(shape, name + "gradient"), 0.1});
      }
      sgd(bench.stream(), parts, update_scalars(bench, 0.1, 1, 1, 0.5, 0), momentum);
      sgd(bench.stream(), parts, update_scalars(bench, 0.01, 1, 1, 0.5, 1), momentum);
      for (const SgdPart& part : parts) {
        results[device == DeviceKind::Cuda].push_back(bench.read<float>(part.weight));
        if (part.velocity)
          results[device == DeviceKind::Cuda].push_back(bench.read<float>(part.velocity));
      }
    }
    EXPECT_TRUE(results[0] == results[1]) << "momentum " << momentum;
  }
}

}  // namespace
}  // namespace sextant
