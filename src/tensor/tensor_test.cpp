#include "tensor/tensor.h"

#include <numeric>

#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

Tensor counted(Workbench& bench, const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 0.0F);
  return bench.make<float>(shape, values);
}

TEST(Tensor, SliceSharesRowsOfDimZero) {
  Workbench bench;
  Tensor whole = counted(bench, {4, 3});
  Tensor part = whole.slice(1, 3);
  EXPECT_EQ(part.shape(), (Shape{2, 3}));
  EXPECT_EQ(bench.read<float>(part), (std::vector<float>{3, 4, 5, 6, 7, 8}));
  fill_zero(bench.stream(), part);
  EXPECT_EQ(bench.read<float>(whole), (std::vector<float>{0, 1, 2, 0, 0, 0, 0, 0, 0, 9, 10, 11}));
  EXPECT_EQ(whole.slice(4, 4).elements(), 0);
}

TEST(Tensor, ViewIsTheSameMemoryUnderAnotherShape) {
  Workbench bench;
  const Tensor whole = counted(bench, {4, 3});
  const Tensor view = whole.view({2, 6});
  EXPECT_EQ(view.raw(), whole.raw());
  EXPECT_EQ(view.dim(-1), 6);
  EXPECT_EQ(view.rows(), 2);
  EXPECT_EQ(bench.read<float>(view.slice(1, 2)), (std::vector<float>{6, 7, 8, 9, 10, 11}));
}

TEST(Tensor, MemoryLivesAsLongAsAnyCopyOrSlice) {
  Workbench bench;
  const int64_t before = bench.arena().current(Category::Activations);
  Tensor part;
  {
    const Tensor whole = counted(bench, {4, 3});
    part = whole.slice(2, 3);
  }
  EXPECT_EQ(bench.arena().current(Category::Activations), before + 48);
  EXPECT_EQ(bench.read<float>(part), (std::vector<float>{6, 7, 8}));
  part = Tensor();
  EXPECT_EQ(bench.arena().current(Category::Activations), before);
}

TEST(Tensor, RefusesRowsViewsAndTypesItDoesNotHave) {
  Workbench bench;
  Tensor whole = counted(bench, {4, 3});
  EXPECT_ERROR((void)whole.slice(2, 5), Usage, "rows 2...5 of a tensor [4, 3]");
  EXPECT_ERROR((void)whole.slice(-1, 2), Usage, "rows -1...2");
  EXPECT_ERROR((void)whole.slice(3, 2), Usage, "rows 3...2");
  EXPECT_ERROR((void)whole.view({5}).slice(0, 0), Usage, "cannot view [4, 3] as [5]");
  EXPECT_ERROR((void)whole.view({1}), Usage, "cannot view [4, 3] as [1]");
  EXPECT_ERROR((void)whole.data<double>(), Internal, "is f32, not f64");
  EXPECT_ERROR((void)whole.slice(0, 1).view({}), Usage, "cannot view");
  EXPECT_ERROR((void)bench.make<float>({}, {1}).slice(0, 0), Usage, "rows 0...0 of a tensor []");
}

TEST(Tensor, DTypesHaveNamesAndSizes) {
  EXPECT_EQ(name_of(DType::F8E4M3), "f8e4m3");
  EXPECT_EQ(size_of(DType::BF16), 2);
  EXPECT_EQ(Tensor().dtype(), DType::F32);
  EXPECT_FALSE(Tensor());
}

}  // namespace
}  // namespace sextant
