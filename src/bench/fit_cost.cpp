// Few parts, so every subset of them is solved by least squares, and the best whose parts are all
// positive is taken.
#include <array>
#include <cmath>
#include <limits>

#include "bench/calibrate.h"

namespace sextant {
namespace {

constexpr int kParts = 5;
constexpr double OpCost::*kMembers[kParts] = {&OpCost::call, &OpCost::flop, &OpCost::read,
                                              &OpCost::written, &OpCost::sent};
using Row = std::array<double, kParts>;

Row row_of(const CostSample& s) {
  return {1, s.flops, s.read, s.written, s.sent};
}

double squared_error(const OpCost& cost, const std::vector<CostSample>& samples) {
  double sum = 0;
  for (const CostSample& s : samples) {
    const double error = cost.of(s.flops, s.read, s.written, s.sent) / s.seconds - 1;
    sum += error * error;
  }
  return sum;
}

// Gaussian elimination with pivots; false where the system is singular.
bool solve(std::array<Row, kParts> a, Row b, int n, Row& x) {
  for (int i = 0; i < n; ++i) {
    int pivot = i;
    for (int j = i + 1; j < n; ++j)
      if (std::abs(a[j][i]) > std::abs(a[pivot][i])) pivot = j;
    if (std::abs(a[pivot][i]) < 1e-12) return false;
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (int j = i + 1; j < n; ++j) {
      const double factor = a[j][i] / a[i][i];
      for (int k = i; k < n; ++k) a[j][k] -= factor * a[i][k];
      b[j] -= factor * b[i];
    }
  }
  for (int i = n - 1; i >= 0; --i) {
    x[i] = b[i];
    for (int k = i + 1; k < n; ++k) x[i] -= a[i][k] * x[k];
    x[i] /= a[i][i];
  }
  return true;
}

// The parts in `subset` that explain the samples best; false where they cannot be told apart or one
// of them is not positive. Columns are scaled to the same size.
bool fit_subset(const std::vector<CostSample>& samples, unsigned subset, OpCost& out) {
  std::vector<int> parts;
  for (int part = 0; part < kParts; ++part)
    if (subset >> part & 1) parts.push_back(part);
  const int n = static_cast<int>(parts.size());
  Row scale{};
  for (const CostSample& s : samples)
    for (int i = 0; i < n; ++i) scale[i] = std::max(scale[i], row_of(s)[parts[i]] / s.seconds);
  for (int i = 0; i < n; ++i)
    if (scale[i] == 0) return false;
  std::array<Row, kParts> a{};
  Row b{}, x{};
  for (const CostSample& s : samples) {
    const Row row = row_of(s);
    for (int i = 0; i < n; ++i) {
      const double of_i = row[parts[i]] / s.seconds / scale[i];
      b[i] += of_i;
      for (int j = 0; j < n; ++j) a[i][j] += of_i * row[parts[j]] / s.seconds / scale[j];
    }
  }
  if (!solve(a, b, n, x)) return false;
  out = {};
  for (int i = 0; i < n; ++i) {
    if (!(x[i] > 0)) return false;
    out.*kMembers[parts[i]] = x[i] / scale[i];
  }
  return true;
}

}  // namespace

OpCost fit_cost(const std::vector<CostSample>& all) {
  std::vector<CostSample> samples;
  for (const CostSample& s : all)
    if (s.seconds > 0) samples.push_back(s);
  OpCost best;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned subset = 1; subset < 1u << kParts; ++subset) {
    OpCost cost;
    if (!fit_subset(samples, subset, cost)) continue;
    const double error = squared_error(cost, samples);
    if (error < least) best = cost, least = error;
  }
  return best;
}

double mean_error(const OpCost& cost, const std::vector<CostSample>& samples) {
  double sum = 0;
  for (const CostSample& s : samples)
    sum += std::abs(cost.of(s.flops, s.read, s.written, s.sent) / std::max(s.seconds, 1e-12) - 1);
  return samples.empty() ? 0 : sum / static_cast<double>(samples.size());
}

}  // namespace sextant
