// Folds on a GPU have the bits of the CPU's.
#include "comm/gpu_work.h"

#include <gtest/gtest.h>

#include "comm/reduce.h"
#include "support/needs_gpu.h"
#include "support/workbench.h"

namespace sextant {
namespace {

// `inputs` vectors, reduced on the GPU and by reduce_into.
template <class T>
void expect_bits_of_cpu(int inputs, int64_t count, ReduceOp reduce_op, Into into) {
  Workbench bench(1, DeviceKind::Cuda);
  const Tensor in = bench.random<T>({inputs, count}, "in");
  Tensor out = bench.random<T>({count}, "out");
  std::vector<std::byte> all = bench.bytes(in), expected = bench.bytes(out);
  std::vector<const std::byte*> there, here;
  for (int i = 0; i < inputs; ++i) {
    const auto at = static_cast<size_t>(i * count * size_of(kDTypeOf<T>));
    there.push_back(in.raw() + at);
    here.push_back(all.data() + at);
  }
  fold_on_gpu(bench.stream().queue(), out.raw(), there, count, kDTypeOf<T>, reduce_op, into);
  reduce_into(expected.data(), here, count, kDTypeOf<T>, reduce_op, into);
  EXPECT_TRUE(bench.bytes(out) == expected)
      << inputs << " of " << count << ' ' << name_of(kDTypeOf<T>);
}

TEST(CudaFold, HasTheBitsOfTheCpuForAnyNumberOfInputs) {
  SXT_NEEDS_GPU();
  for (const int inputs : {2, 64, 65, 200, kMostFolded})
    for (const int64_t count : {1, 96, 1003})  // 96: whole packs at every address
      for (const Into into : {Into::Replace, Into::Add}) {
        expect_bits_of_cpu<float>(inputs, count, ReduceOp::Sum, into);
        expect_bits_of_cpu<bf16>(inputs, count, ReduceOp::Sum, into);
      }
  expect_bits_of_cpu<f16>(65, 1003, ReduceOp::Max, Into::Replace);
}

}  // namespace
}  // namespace sextant
