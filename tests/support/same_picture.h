#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

namespace sextant {

// A committed drawing and one that was just made are the same: equal text, and coordinates within a
// hundredth, which no eye can tell and other compilers may round to.
inline void expect_same_picture(const std::string& path, const std::string& drawn) {
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  const std::string committed = text.str();
  static const std::regex kNumber(R"(-?\d+(?:\.\d+)?)");
  const auto without_numbers = [](const std::string& svg) {
    return std::regex_replace(svg, kNumber, "#");
  };
  ASSERT_EQ(without_numbers(committed), without_numbers(drawn)) << path;
  std::sregex_iterator left(committed.begin(), committed.end(), kNumber), end;
  std::sregex_iterator right(drawn.begin(), drawn.end(), kNumber);
  for (; left != end; ++left, ++right)
    ASSERT_NEAR(std::stod(left->str()), std::stod(right->str()), 0.0101) << path;
}

}  // namespace sextant
