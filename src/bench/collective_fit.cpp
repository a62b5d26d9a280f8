#include "bench/collective_fit.h"

#include <algorithm>
#include <cmath>

namespace sextant {
namespace {

using Points = std::vector<const CollectiveRow*>;

// Minimises the sum of ((alpha + beta b - t) / t)^2: with weights 1 / t, two normal equations.
void fit(CollectiveFit& out, const Points& points) {
  double a = 0, ab = 0, b = 0, rhs_a = 0, rhs_b = 0;
  for (const CollectiveRow* row : points) {
    const double one = 1 / row->seconds, bytes = static_cast<double>(row->bytes) / row->seconds;
    a += one * one;
    ab += one * bytes;
    b += bytes * bytes;
    rhs_a += one;
    rhs_b += bytes;
  }
  const double determinant = a * b - ab * ab;
  if (determinant > 1e-12 * a * b) {
    out.alpha_s = (rhs_a * b - rhs_b * ab) / determinant;
    out.beta_s = (rhs_b * a - rhs_a * ab) / determinant;
  } else {
    out.alpha_s = rhs_a / a;
  }
  // On the border of what is allowed the other constant fits alone.
  if (out.alpha_s < 0) out.alpha_s = 0, out.beta_s = rhs_b / b;
  if (out.beta_s < 0) out.beta_s = 0, out.alpha_s = rhs_a / a;
  for (const CollectiveRow* row : points)
    out.error = std::max(out.error, std::abs(out.seconds(row->bytes) / row->seconds - 1));
}

}  // namespace

std::vector<CollectiveFit> fit_collectives(std::span<const CollectiveRow> rows) {
  std::vector<CollectiveFit> fits;
  std::vector<Points> points;
  for (const CollectiveRow& row : rows) {
    const auto found = std::ranges::find_if(fits, [&](const CollectiveFit& one) {
      return one.operation == row.operation && one.ranks == row.ranks;
    });
    const auto at = static_cast<size_t>(found - fits.begin());
    if (found == fits.end()) {
      fits.push_back({row.operation, row.ranks});
      points.emplace_back();
    }
    points[at].push_back(&row);
  }
  for (size_t i = 0; i < fits.size(); ++i) fit(fits[i], points[i]);
  return fits;
}

}  // namespace sextant
