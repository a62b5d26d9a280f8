#include "optim/backup.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tensor/copy.h"

namespace sextant {
namespace {

std::vector<float> values_of(Stream& stream, const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  copy_to_host<float>(stream, values, tensor);
  return values;
}

TEST(Backup, GivesBackTheBitsThatWereSavedLast) {
  Arena arena(Device{}, int64_t{64} << 20);
  Stream stream(arena, 1);
  Tensor a = arena.allocate(Category::Weights, DType::F32, {3});
  Tensor none = arena.allocate(Category::Weights, DType::F32, {0});
  Tensor b = arena.allocate(Category::Optimizer, DType::F32, {2});
  const int64_t before = arena.current(Category::Optimizer);
  Backup backup(stream, {a, none, b});
  EXPECT_EQ(arena.current(Category::Optimizer) - before, 4 * (3 + 0 + 2));

  const std::vector<float> old_a = {1, -0.0f, std::numeric_limits<float>::denorm_min()};
  const std::vector<float> old_b = {4, 5}, other_a = {7, 8, 9}, other_b = {10, 11};
  copy_from_host<float>(stream, a, other_a);
  copy_from_host<float>(stream, b, other_b);
  backup.save(stream);
  copy_from_host<float>(stream, a, old_a);
  copy_from_host<float>(stream, b, old_b);
  backup.save(stream);
  copy_from_host<float>(stream, a, other_a);
  copy_from_host<float>(stream, b, other_b);
  for (int twice = 0; twice < 2; ++twice) {
    backup.restore(stream);
    EXPECT_EQ(std::memcmp(values_of(stream, a).data(), old_a.data(), 12), 0);
    EXPECT_EQ(values_of(stream, b), old_b);
  }
}

}  // namespace
}  // namespace sextant
