#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "support/workbench.h"

namespace sextant {

// work(bench), which returns bytes, gives the same ones on one, two and three threads and on the
// guarded device.
template <class F>
void expect_same_bits(F&& work) {
  const auto on = [&](int threads, DeviceKind device) {
    Workbench bench(threads, device);
    return work(bench);
  };
  const std::vector<std::byte> wanted = on(1, DeviceKind::Cpu);
  EXPECT_FALSE(wanted.empty());
  EXPECT_TRUE(on(2, DeviceKind::Cpu) == wanted) << "two threads give other bits than one";
  EXPECT_TRUE(on(3, DeviceKind::Cpu) == wanted) << "three threads give other bits than one";
  EXPECT_TRUE(on(2, DeviceKind::Guarded) == wanted) << "the guarded device gives other bits";
}

// Within `tolerance` of the largest value.
template <class T, class U>
void expect_close(const std::vector<T>& got, const std::vector<U>& wanted, double tolerance,
                  std::string_view name = "") {
  ASSERT_EQ(got.size(), wanted.size()) << name;
  double largest = 0;
  for (const U value : wanted) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(static_cast<double>(got[i]), static_cast<double>(wanted[i]), tolerance * largest)
        << name << " element " << i;
}

// The bytes of several tensors, one after another.
template <class... Tensors>
std::vector<std::byte> bytes_of(Workbench& bench, const Tensors&... tensors) {
  std::vector<std::byte> all;
  const auto append = [&](const Tensor& tensor) {
    const std::vector<std::byte> bytes = bench.bytes(tensor);
    all.insert(all.end(), bytes.begin(), bytes.end());
  };
  (append(tensors), ...);
  return all;
}

}  // namespace sextant
