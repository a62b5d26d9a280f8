#include "plan/fit.h"

#include <algorithm>
#include <cmath>

#include "plan/step_time.h"

namespace sextant {
namespace {

using Vector = std::vector<double>;

constexpr double kNear = 0.03;   // residuals below this count as squares
constexpr double kPrior = 0.02;  // pull towards the start, against directions nothing determines

Vector residuals(std::span<const Observation> runs, const Constants& constants) {
  Vector out;
  out.reserve(runs.size());
  for (const Observation& run : runs)
    out.push_back(std::log(step_time(run.asked, constants).total() / run.seconds));
  return out;
}

// The position of a constant in its range, 0 to 1.
double get(const Constants& constants, const ConstantInfo& info) {
  return (constants.*info.value - info.least) / (info.most - info.least);
}
void set(Constants& constants, const ConstantInfo& info, double position) {
  constants.*info.value = info.least + std::clamp(position, 0.0, 1.0) * (info.most - info.least);
}

double loss(std::span<const Observation> runs, const Vector& r, const Vector& at,
            const Vector& start) {
  double sum = 0;
  for (size_t i = 0; i < r.size(); ++i) {
    const double a = std::abs(r[i]);
    sum += runs[i].weight * (a > kNear ? a - kNear / 2 : a * a / (2 * kNear));
  }
  for (size_t j = 0; j < at.size(); ++j) sum += kPrior * (at[j] - start[j]) * (at[j] - start[j]);
  return sum;
}

// Solves A x = b by elimination with pivots; A is n x n.
Vector solve(std::vector<Vector> a, Vector b) {
  const size_t n = b.size();
  for (size_t c = 0; c < n; ++c) {
    size_t pivot = c;
    for (size_t r = c + 1; r < n; ++r)
      if (std::abs(a[r][c]) > std::abs(a[pivot][c])) pivot = r;
    std::swap(a[c], a[pivot]);
    std::swap(b[c], b[pivot]);
    for (size_t r = c + 1; r < n; ++r) {
      const double f = a[r][c] / a[c][c];
      for (size_t k = c; k < n; ++k) a[r][k] -= f * a[c][k];
      b[r] -= f * b[c];
    }
  }
  for (size_t c = n; c-- > 0;) {
    for (size_t k = c + 1; k < n; ++k) b[c] -= a[c][k] * b[k];
    b[c] /= a[c][c];
  }
  return b;
}

struct Normal {
  std::vector<Vector> a;
  Vector b;
};

}  // namespace

Constants fit_constants(std::span<const Observation> runs, const Constants& start, int rounds) {
  const std::span<const ConstantInfo> table = constant_table();
  const size_t n = table.size();
  Constants best = start;
  Vector at(n), origin(n);
  for (size_t j = 0; j < n; ++j) {
    at[j] = origin[j] = std::clamp(get(start, table[j]), 0.0, 1.0);
    set(best, table[j], at[j]);
  }
  Vector r = residuals(runs, best);
  double now = loss(runs, r, at, origin), damping = 1e-2;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Vector> slope(n);
    for (size_t j = 0; j < n; ++j) {
      Constants moved = best;
      const double step = at[j] > 0.5 ? -1e-4 : 1e-4;
      set(moved, table[j], at[j] + step);
      slope[j] = residuals(runs, moved);
      for (size_t i = 0; i < r.size(); ++i) slope[j][i] = (slope[j][i] - r[i]) / step;
    }
    Normal eq{std::vector<Vector>(n, Vector(n, 0)), Vector(n, 0)};
    for (size_t i = 0; i < r.size(); ++i) {
      const double w = runs[i].weight / std::max(std::abs(r[i]), kNear);
      for (size_t j = 0; j < n; ++j) {
        const double ws = w * slope[j][i];
        eq.b[j] -= ws * r[i];
        for (size_t k = 0; k <= j; ++k) eq.a[j][k] += ws * slope[k][i];
      }
    }
    for (size_t j = 0; j < n; ++j) {
      eq.a[j][j] += 2 * kPrior;
      eq.b[j] -= 2 * kPrior * (at[j] - origin[j]);
      for (size_t k = j + 1; k < n; ++k) eq.a[j][k] = eq.a[k][j];
    }
    bool better = false;
    for (int tries = 0; tries < 12 && !better; ++tries) {
      std::vector<Vector> damped = eq.a;
      for (size_t j = 0; j < n; ++j) damped[j][j] += damping * (eq.a[j][j] + 1e-3);
      const Vector move = solve(damped, eq.b);
      Constants next = best;
      Vector next_at(n);
      for (size_t j = 0; j < n; ++j) {
        next_at[j] = std::clamp(at[j] + std::clamp(move[j], -0.2, 0.2), 0.0, 1.0);
        set(next, table[j], next_at[j]);
      }
      const Vector next_r = residuals(runs, next);
      const double after = loss(runs, next_r, next_at, origin);
      if (after < now) {
        better = now - after > 1e-6 * now;
        best = next;
        at = next_at;
        r = next_r;
        now = after;
        damping = std::max(damping / 4, 1e-6);
        if (!better) return best;
      } else {
        damping *= 4;
      }
    }
    if (!better) break;
  }
  return best;
}

}  // namespace sextant
