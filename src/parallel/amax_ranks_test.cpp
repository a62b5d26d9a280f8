#include "parallel/amax_ranks.h"

#include <gtest/gtest.h>

#include "comm/run_ranks.h"
#include "mesh/mesh.h"
#include "support/workbench.h"

namespace sextant {
namespace {

// Tensor and context parallel ranks hold parts of one tensor; data parallel ranks another tensor.
TEST(AmaxRanks, AgreeOnTheLargestOverTensorAndContextParallelRanks) {
  MeshShape shape;
  for (const Axis axis : {Axis::Tp, Axis::Cp, Axis::Dp})
    shape.degrees[static_cast<size_t>(axis)] = 2;
  run_ranks(8, [&](Communicator& world) {
    Mesh mesh(world, shape);
    Workbench bench;
    const AmaxRanks ranks(mesh.along(Axis::Tp), mesh.along(Axis::Cp));
    const auto rank = static_cast<float>(world.rank());
    Tensor amax = bench.make<float>({2, 1}, {rank, 100 - rank});
    ranks.agree(bench.stream(), amax);
    const float first = mesh.at(Axis::Dp) == 0 ? 0 : 4;  // of the four ranks
    EXPECT_EQ(bench.read<float>(amax), (std::vector<float>{first + 3, 100 - first}));
  });
}

}  // namespace
}  // namespace sextant
