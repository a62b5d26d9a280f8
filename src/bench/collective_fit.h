#pragma once
#include <span>
#include <vector>

#include "bench/collectives.h"

namespace sextant {

// The α-β model of a collective over a number of ranks: alpha + beta * bytes of the vector.
struct CollectiveFit {
  Operation operation = Operation::AllReduce;
  int ranks = 0;
  double alpha_s = 0;
  double beta_s = 0;  // per byte
  double error = 0;   // largest relative difference from a measured time

  double seconds(int64_t bytes) const { return alpha_s + beta_s * static_cast<double>(bytes); }
};

// Fits of all operations and ranks of the rows, in their order: least squares of relative errors,
// neither constant below 0. One size alone fits with beta = 0.
std::vector<CollectiveFit> fit_collectives(std::span<const CollectiveRow> rows);

}  // namespace sextant
