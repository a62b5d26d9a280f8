#include "train/distance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace sextant {
namespace {

// Elements that typical_distance leaves out: one of 32, but at least two.
constexpr size_t kShareLeftOut = 32;
constexpr size_t kFewestLeftOut = 2;

}  // namespace

bool has_same_bits(std::span<const float> a, std::span<const float> b) {
  return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

bool has_same_values(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin());
}

double distance(double a, double b) {
  const double difference = std::abs(a - b);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

double largest_distance(std::span<const float> a, std::span<const float> b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, distance(a[i], b[i]));
  return most;
}

double rms_distance(std::span<const float> a, std::span<const float> b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(distance(a[i], b[i]), 2);
  return std::sqrt(squares / static_cast<double>(std::max<size_t>(1, a.size())));
}

double typical_distance(std::span<const float> a, std::span<const float> b) {
  std::vector<double> all(a.size());
  for (size_t i = 0; i < a.size(); ++i) all[i] = distance(a[i], b[i]);
  const size_t left_out = std::max(kFewestLeftOut, all.size() / kShareLeftOut);
  if (all.size() <= left_out) return 0;
  std::ranges::nth_element(all, all.end() - static_cast<int64_t>(left_out));
  all.resize(all.size() - left_out);
  double squares = 0;
  for (const double value : all) squares += value * value;
  return std::sqrt(squares / static_cast<double>(all.size()));
}

double largest(std::span<const float> values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

double rms(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += std::pow(static_cast<double>(value), 2);
  return std::sqrt(squares / static_cast<double>(std::max<size_t>(1, values.size())));
}

double relative(double difference, double scale) {
  return difference == 0 || std::isinf(difference) ? difference : difference / scale;
}

}  // namespace sextant
