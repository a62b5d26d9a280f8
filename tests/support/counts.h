#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace sextant {

inline bool is_long_run() {
  return std::getenv("SXT_LONG") != nullptr;
}

// How many random cases a test draws: few in every run, many in scripts/nightly.sh (SXT_LONG=1).
inline int random_cases(int few, int many) {
  return is_long_run() ? many : few;
}

// The same for the longest ones, with a number of its own for .ci/run (SXT_CI=1).
inline int random_cases(int few, int in_ci, int many) {
  return random_cases(std::getenv("SXT_CI") != nullptr ? in_ci : few, many);
}

// Cases of a grid: one in `n` in every run, all in scripts/nightly.sh. Tests begin with different
// ones. A number without factors of the grid's sides meets every value of each side.
class GridSample {
 public:
  explicit GridSample(unsigned n) : n_(is_long_run() ? 1 : n), next_(offset() % n_) {}

  bool takes() { return next_++ % n_ == 0; }

 private:
  static unsigned offset() {
    unsigned sum = 0;
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    for (const char c : std::string_view(test->name())) sum = sum * 31 + static_cast<unsigned>(c);
    return sum;
  }

  unsigned n_, next_;
};

}  // namespace sextant
