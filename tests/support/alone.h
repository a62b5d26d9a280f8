#pragma once
#include "mesh/serial_mesh.h"
#include "parallel/context_ranks.h"
#include "parallel/tensor_ranks.h"

namespace sextant {

// The places of a rank that shares neither layers nor sequences.
struct Alone {
  SerialMesh mesh;
  TensorRanks tensor{mesh.mesh().along(Axis::Tp), false};
  ContextRanks context{mesh.mesh().along(Axis::Cp), {}, 1};
};

}  // namespace sextant
