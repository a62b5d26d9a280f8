// What expert parallel moves between ranks over NCCL: rows in uneven parts along ep, gathered and
// summed along etp (parallel/expert_ranks.cpp), or first between and then inside of nodes
// (parallel/expert_nodes.cpp). Over the emulation; kernels between the calls are left out.
#include <gtest/gtest.h>

#include "mesh/mesh.h"
#include "nccl/emulated_nccl.h"
#include "support/nccl_ranks.h"
#include "support/workbench.h"

namespace sextant {
namespace {

constexpr int kRanks = 8;
constexpr int64_t kWidth = 3;

class EmulatedExperts : public testing::TestWithParam<CallOrder> {
 protected:
  void TearDown() override { EXPECT_EQ(emulated_nccl_alive(), 0); }
  static void run(const std::function<void(Communicator&)>& f) {
    run_nccl_ranks(kRanks, f, {.timeout_s = 20, .order = GetParam()});
  }
};
INSTANTIATE_TEST_SUITE_P(Orders, EmulatedExperts,
                         testing::Values(CallOrder::Host, CallOrder::Device), [](const auto& info) {
                           return info.param == CallOrder::Host ? "ByHost" : "ByEvents";
                         });

// Rows of a rank of the world for another one: none for some.
int64_t rows_between(int from, int to) {
  return (from * 5 + to * 3) % 4;
}
float value_of_row(int from, int to, int64_t row) {
  return static_cast<float>(1000 * from + 100 * to + 10 * row);
}
void add_rows(std::vector<float>& all, int from, int to) {
  for (int64_t row = 0; row < rows_between(from, to); ++row)
    all.insert(all.end(), kWidth, value_of_row(from, to, row));
}

// Elements to and from each rank of a group, for rows that move between ranks of the world.
struct Splits {
  std::vector<int64_t> out, in;
  Splits(Communicator& group) {
    const int own = group.world_rank(group.rank());
    for (int peer = 0; peer < group.size(); ++peer) {
      out.push_back(kWidth * rows_between(own, group.world_rank(peer)));
      in.push_back(kWidth * rows_between(group.world_rank(peer), own));
    }
  }
};
std::vector<float> rows_to(Communicator& group) {
  std::vector<float> rows;
  const int own = group.world_rank(group.rank());
  for (int peer = 0; peer < group.size(); ++peer) add_rows(rows, own, group.world_rank(peer));
  return rows;
}
std::vector<float> rows_from(Communicator& group) {
  std::vector<float> rows;
  const int own = group.world_rank(group.rank());
  for (int peer = 0; peer < group.size(); ++peer) add_rows(rows, group.world_rank(peer), own);
  return rows;
}

Tensor make_rows(Workbench& bench, const std::vector<float>& rows) {
  return bench.make<float>({static_cast<int64_t>(rows.size())}, rows);
}

// There and back along ep, gathered in between along etp and summed on the way back, each call
// behind the last by order_after, as layers with something to compute meanwhile do.
TEST_P(EmulatedExperts, RowsGoAlongEpAndEtpAndBack) {
  for (const auto& [ep, etp] : {std::pair{2, 2}, std::pair{4, 2}, std::pair{2, 4}})
    run([&](Communicator& world) {
      MeshShape shape;
      shape.degrees[static_cast<size_t>(Axis::Dp)] = kRanks;
      shape.ep = ep;
      shape.etp = etp;
      Mesh mesh(world, shape);
      Communicator &along_ep = mesh.along(ExpertAxis::Ep), &along_etp = mesh.along(ExpertAxis::Etp);
      Workbench bench(1, DeviceKind::Cuda);
      Stream& stream = bench.stream();
      const Splits splits(along_ep);
      const std::vector<float> sent = rows_to(along_ep), arrived = rows_from(along_ep);
      std::vector<int64_t> here(static_cast<size_t>(etp));
      here[static_cast<size_t>(along_etp.rank())] = static_cast<int64_t>(arrived.size());
      along_etp.control().all_reduce(std::span(here), ReduceOp::Sum);
      int64_t total = 0, begin = 0;
      for (int place = 0; place < etp; ++place) {
        if (place < along_etp.rank()) begin += here[static_cast<size_t>(place)];
        total += here[static_cast<size_t>(place)];
      }
      Tensor rows = make_rows(bench, sent), all = bench.empty<float>({total});
      Tensor own = all.slice(begin, begin + here[static_cast<size_t>(along_etp.rank())]);
      const SplitSizes out(splits.out), in(splits.in), gathered(here);
      Pending exchanged = along_ep.all_to_all(stream, own, rows, When::Later, out, in);
      along_etp.order_after(exchanged);
      Pending collected = along_etp.all_gather(stream, all, own, When::Later, gathered);
      exchanged.wait();
      collected.wait();
      EXPECT_EQ(bench.read<float>(own), arrived) << "rank " << world.rank();
      std::vector<float> of_all;
      for (int place = 0; place < etp; ++place) {
        const int rank = along_etp.world_rank(place);
        for (const int from : expert_group(shape, ExpertAxis::Ep, rank))
          add_rows(of_all, from, rank);
      }
      EXPECT_EQ(bench.read<float>(all), of_all) << "rank " << world.rank();
      Tensor back = bench.empty<float>({static_cast<int64_t>(sent.size())});
      Pending summed = along_etp.reduce_scatter(stream, own, all, ReduceOp::Sum, When::Later,
                                                Into::Replace, gathered);
      along_ep.order_after(summed);
      Pending returned = along_ep.all_to_all(stream, back, own, When::Later, in, out);
      summed.wait();
      returned.wait();
      std::vector<float> expected = sent;
      for (float& value : expected) value *= static_cast<float>(etp);
      EXPECT_EQ(bench.read<float>(back), expected) << "rank " << world.rank();
    });
}

TEST_P(EmulatedExperts, RowsGoBetweenNodesAndInsideOfThem) {
  constexpr int kNode = 2;
  run([](Communicator& world) {
    MeshShape shape;
    shape.degrees[static_cast<size_t>(Axis::Dp)] = kRanks;
    shape.ep = kRanks;
    Mesh mesh(world, shape);
    Communicator& ranks = mesh.along(ExpertAxis::Ep);
    const auto inside = ranks.subgroup(
        ranks_where(kRanks, [&](int other) { return other / kNode == ranks.rank() / kNode; }),
        "ep inside");
    const auto between = ranks.subgroup(
        ranks_where(kRanks, [&](int other) { return other % kNode == ranks.rank() % kNode; }),
        "ep between");
    Workbench bench(1, DeviceKind::Cuda);
    Stream& stream = bench.stream();
    // A layer's rows cross in both groups at once, in several layers one after the other.
    for (int layer = 0; layer < 3; ++layer) {
      std::vector<Tensor> there, back;
      std::vector<Pending> pending;
      std::vector<Splits> splits;
      for (Communicator* group : {between.get(), inside.get()}) splits.emplace_back(*group);
      for (size_t i = 0; i < 2; ++i) {
        Communicator& group = i == 0 ? *between : *inside;
        Tensor rows = make_rows(bench, rows_to(group));
        there.push_back(make_rows(bench, std::vector<float>(rows_from(group).size(), -1)));
        back.push_back(make_rows(bench, std::vector<float>(rows_to(group).size(), -1)));
        pending.push_back(group.all_to_all(stream, there[i], rows, When::Later,
                                           SplitSizes(splits[i].out), SplitSizes(splits[i].in)));
      }
      for (Pending& one : pending) one.wait();
      for (size_t i = 0; i < 2; ++i) {
        Communicator& group = i == 0 ? *between : *inside;
        EXPECT_EQ(bench.read<float>(there[i]), rows_from(group)) << "rank " << world.rank();
        group.all_to_all(stream, back[i], there[i], When::Now, SplitSizes(splits[i].in),
                         SplitSizes(splits[i].out));
        EXPECT_EQ(bench.read<float>(back[i]), rows_to(group)) << "rank " << world.rank();
      }
    }
  });
}

}  // namespace
}  // namespace sextant
