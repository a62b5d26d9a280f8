#pragma once
#include <string>
#include <vector>

#include "plan/case.h"

namespace sextant {

// FLOPs and bytes of an operation's forward for one micro-batch on one rank; each operand moves
// once. Below the ridge point of the GPU memory bounds it, above arithmetic.
struct OpIntensity {
  std::string name;
  double flops = 0, bytes = 0;
  double intensity() const { return flops / bytes; }
};
// Linear layers, attention, norm and head of a dense layer; with experts, those of one expert.
std::vector<OpIntensity> op_intensities(const Case& asked);

// "compute" or "memory".
std::string bound_of(const OpIntensity& op, const Hardware& hardware);

}  // namespace sextant
