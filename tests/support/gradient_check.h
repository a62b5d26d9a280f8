#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "tensor/copy.h"

namespace sextant {

// Gradient of f() with respect to the f64 tensor x that f reads, by central differences of fourth
// order: (8 (f(+h) - f(-h)) - (f(+2h) - f(-2h))) / 12h. x holds its old values afterwards.
template <class F>
std::vector<double> numeric_gradient(Stream& stream, Tensor& x, F&& f, double h = 1e-3) {
  std::vector<double> values(static_cast<size_t>(x.elements()));
  copy_to_host<double>(stream, values, x);
  std::vector<double> gradient(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double middle = values[i];
    const auto at = [&](double offset) {
      values[i] = middle + offset;
      copy_from_host<double>(stream, x, values);
      return static_cast<double>(f());
    };
    gradient[i] = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
    values[i] = middle;
  }
  copy_from_host<double>(stream, x, values);
  return gradient;
}

// dx, as an op's backward made it, is the numeric gradient of f, up to `tolerance` of the largest.
template <class F>
void expect_gradient(Stream& stream, Tensor& x, const Tensor& dx, std::string_view name, F&& f,
                     double tolerance = 1e-8) {
  const std::vector<double> wanted = numeric_gradient(stream, x, f);
  std::vector<double> got(static_cast<size_t>(dx.elements()));
  copy_to_host<double>(stream, got, dx);
  ASSERT_EQ(got.size(), wanted.size()) << name;
  double largest = 1e-3;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], tolerance * largest) << name << " element " << i;
}

// Sum of y * dy: the scalar whose gradient with respect to y is dy.
inline double dot(Stream& stream, const Tensor& y, const Tensor& dy) {
  std::vector<double> a(static_cast<size_t>(y.elements())), b(a.size());
  copy_to_host<double>(stream, a, y);
  copy_to_host<double>(stream, b, dy);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace sextant
