#pragma once
#include "base/clock.h"
#include "comm/run_ranks.h"
#include "mesh/mesh.h"

namespace sextant {

// A mesh of a single rank, degree 1 on all axes.
class SerialMesh {
 public:
  SerialMesh() : world_(1, clock_), mesh_(world_.rank(0), MeshShape{}) {}

  Mesh& mesh() { return mesh_; }

 private:
  SystemClock clock_;
  ThreadWorld world_;
  Mesh mesh_;
};

}  // namespace sextant
