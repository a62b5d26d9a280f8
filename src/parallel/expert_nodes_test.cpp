#include "parallel/expert_nodes.h"

#include <gtest/gtest.h>

#include <utility>

#include "comm/run_ranks.h"
#include "ops/moe_capacity.h"
#include "ops/moe_permute.h"
#include "support/expect_error.h"
#include "support/workbench.h"

namespace sextant {
namespace {

struct NodeCase {
  int ranks, node;
  int64_t experts, chosen, tokens;
};
constexpr int64_t kNodeWidth = 3;

MeshShape all_of_ep(int ranks) {
  return {{1, 1, 1, ranks, 1}, ranks};
}

// Distinct experts of a token, out of balance; some of them dropped.
std::vector<int32_t> choices_of(const NodeCase& all, int rank, bool drops) {
  std::vector<int32_t> choice;
  for (int64_t token = 0; token < all.tokens; ++token)
    for (int64_t j = 0; j < all.chosen; ++j) {
      const int64_t expert = (token * token + 3 * rank + j * (1 + token % 2)) % all.experts;
      choice.push_back(drops && (token + j + rank) % 5 == 0 ? kDropped
                                                            : static_cast<int32_t>(expert));
    }
  return choice;
}

// What a rank sends, with the counts of all.
struct SentRows {
  Tensor choice, counts, places;
};
SentRows sent_rows(Workbench& bench, const ExpertRanks& group, const std::vector<int32_t>& choice,
                   const NodeCase& all) {
  SentRows out{bench.make<int32_t>({all.tokens, all.chosen}, choice), {}, {}};
  Tensor own = bench.empty<int32_t>({all.experts});
  moe_count(bench.stream(), own, out.choice);
  out.places = bench.empty<int32_t>({all.tokens * all.chosen});
  moe_places(bench.stream(), out.places, out.choice, own);
  out.counts = group.all_gather_counts(bench.stream(), own);
  return out;
}

// Slots of a routing, and what is sent there and back by it.
struct RoutedNodes {
  Tensor crossing, local, counts, gates, outputs;
  std::vector<int64_t> sizes;
  ExpertNodes::Slots slots() { return {crossing, local, counts, gates, outputs}; }
};

// Rows of the flat exchange there and back.
Tensor dispatch(Stream& stream, const ExpertRanks& group, const Tensor& rows, const SentRows& sent,
                std::span<const int64_t> sizes) {
  RowsInFlight flight;
  group.start_dispatch(stream, flight, rows, sizes, When::Now);
  return group.end_dispatch(stream, flight, sent.counts, rows.dim(0));
}

Tensor combine(Stream& stream, const ExpertRanks& group, const Tensor& rows, const SentRows& sent,
               std::span<const int64_t> sizes, int64_t pairs) {
  RowsInFlight flight;
  group.start_combine(stream, flight, rows, sent.counts, sizes, pairs, When::Now);
  return group.end_combine(flight);
}

// The exchanges of nodes, each ended at once.
struct NodeExchange {
  Stream& stream;
  const ExpertNodes& nodes;
  RoutedNodes& routed;
  When when = When::Now;
  RowsInFlight flight = {};

  Tensor dispatch(const Tensor& x, const Tensor& gates) {
    nodes.start_dispatch(stream, flight, x, gates, routed.slots(), routed.sizes, when);
    return nodes.end_dispatch(stream, flight, routed.slots(), routed.sizes);
  }
  void return_outputs(const Tensor& rows) {
    nodes.return_outputs(stream, rows, routed.slots(), routed.sizes);
  }
  void combine(Tensor& y) {
    nodes.start_combine(stream, flight, routed.slots(), routed.sizes, when);
    nodes.end_combine(stream, flight, y, routed.slots());
  }
  Tensor dispatch_backward(Tensor& dgates, const Tensor& dy) {
    nodes.start_dispatch_backward(stream, flight, dy, routed.slots(), routed.sizes, when);
    return nodes.end_dispatch_backward(stream, flight, dgates, routed.slots(), routed.sizes);
  }
  void combine_backward(Tensor& dx, const Tensor& rows) {
    nodes.start_combine_backward(stream, flight, rows, routed.slots(), routed.sizes, when);
    nodes.end_combine_backward(stream, flight, dx, routed.slots());
  }
};

// For each token the sum of its rows that were not dropped, times gates if there are some: those of
// the experts of a node in ascending order of choice, then nodes.
std::vector<float> summed_by_node(const NodeCase& all, const std::vector<int32_t>& choice,
                                  const std::vector<int32_t>& places,
                                  const std::vector<float>& rows, const std::vector<float>& gates) {
  const int64_t of_node = all.experts * all.node / all.ranks;
  std::vector<float> sums(static_cast<size_t>(all.tokens * kNodeWidth), 0);
  for (int64_t at = 0; at < all.tokens * kNodeWidth; ++at) {
    const int64_t token = at / kNodeWidth;
    bool is_first_node = true;
    for (int64_t node = 0; node * of_node < all.experts; ++node) {
      float sum = 0;
      bool is_first = true;
      for (int64_t j = 0; j < all.chosen; ++j) {
        const auto pair = static_cast<size_t>(token * all.chosen + j);
        if (places[pair] == kDropped || choice[pair] / of_node != node) continue;
        float term = rows[static_cast<size_t>(places[pair] * kNodeWidth + at % kNodeWidth)];
        if (!gates.empty()) term = gates[pair] * term;
        sum = is_first ? term : sum + term;
        is_first = false;
      }
      if (is_first) continue;
      float& total = sums[static_cast<size_t>(at)];
      total = is_first_node ? sum : total + sum;
      is_first_node = false;
    }
  }
  return sums;
}

// Forward and backward, by nodes and without: the same rows in the same order, the same gradients
// of gates, and sums of the same terms.
void expect_what_the_flat_exchange_does(const NodeCase& all, bool drops) {
  run_ranks(all.ranks, [&](Communicator& world) {
    Workbench bench;
    Stream& stream = bench.stream();
    Mesh mesh(world, all_of_ep(world.size()));
    const ExpertRanks group(mesh, {all.experts, all.chosen});
    const ExpertNodes nodes(mesh.along(ExpertAxis::Ep), group, all.node);
    const std::vector<int32_t> choice = choices_of(all, world.rank(), drops);
    const SentRows sent = sent_rows(bench, group, choice, all);
    const std::vector<int32_t> places = bench.read<int32_t>(sent.places);
    const int64_t pairs = all.tokens * all.chosen;
    const std::string name = std::to_string(world.rank());
    const Tensor x = bench.random<float>({all.tokens, kNodeWidth}, "x" + name);
    const Tensor dy = bench.random<float>({all.tokens, kNodeWidth}, "dy" + name);
    const Tensor gates = bench.random<float>({all.tokens, all.chosen}, "gates" + name);
    const auto empty_rows = [&] {
      return bench.make<float>({pairs, kNodeWidth}, std::vector<float>(pairs * kNodeWidth));
    };
    RoutedNodes routed;
    std::vector<int64_t> flat;
    group.read_sizes(stream, flat, sent.counts, pairs, "moe");
    nodes.route(stream, routed.slots(), routed.sizes, sent.choice, sent.counts, "moe");

    Tensor rows = empty_rows();
    moe_permute(stream, rows, x, sent.places);
    NodeExchange exchange{stream, nodes, routed, drops ? When::Later : When::Now};
    const Tensor wanted = dispatch(stream, group, rows, sent, flat);
    const Tensor here = exchange.dispatch(x, gates);
    EXPECT_EQ(bench.read<float>(here), bench.read<float>(wanted)) << "rank " << name;
    const Tensor back = combine(stream, group, wanted, sent, flat, pairs);
    Tensor y = bench.empty<float>(x.shape());
    exchange.return_outputs(here);
    exchange.combine(y);
    EXPECT_EQ(bench.read<float>(y), summed_by_node(all, choice, places, bench.read<float>(back),
                                                   bench.read<float>(gates)))
        << "rank " << name;

    Tensor drows = empty_rows(), dgates = bench.empty<float>(gates.shape()),
           own_dgates = bench.empty<float>(gates.shape());
    moe_combine_backward(stream, drows, dgates, dy, back, gates, sent.places);
    const Tensor wanted_gradient = dispatch(stream, group, drows, sent, flat);
    const Tensor gradient = exchange.dispatch_backward(own_dgates, dy);
    EXPECT_EQ(bench.read<float>(gradient), bench.read<float>(wanted_gradient)) << "rank " << name;
    EXPECT_EQ(bench.read<float>(own_dgates), bench.read<float>(dgates)) << "rank " << name;
    const Tensor returned = combine(stream, group, gradient, sent, flat, pairs);
    Tensor dx = bench.empty<float>(x.shape());
    exchange.combine_backward(dx, gradient);
    EXPECT_EQ(bench.read<float>(dx),
              summed_by_node(all, choice, places, bench.read<float>(returned), {}))
        << "rank " << name;
  });
}

TEST(ExpertNodes, MoveTheRowsOfTheFlatExchangeAndSumThemByNode) {
  for (const bool drops : {false, true})
    for (const NodeCase& all : {NodeCase{4, 2, 8, 2, 7},
                                {8, 2, 16, 3, 9},
                                {8, 4, 16, 3, 9},
                                {6, 3, 6, 2, 1},
                                {4, 2, 4, 4, 5}})
      expect_what_the_flat_exchange_does(all, drops);
}

// Each of 6 tokens of each rank chooses both experts of rank 3: it crosses from the ranks of the
// first node once, with its two choices and gates, and is copied there. One sum comes back; of the
// gradients one row and two gates.
TEST(ExpertNodes, ATokenOfSeveralExpertsOfANodeCrossesOnce) {
  constexpr int64_t kTokens = 6;
  run_ranks(4, [&](Communicator& world) {
    Workbench bench;
    Stream& stream = bench.stream();
    const NodeCase all{4, 2, 8, 2, kTokens};
    Mesh mesh(world, all_of_ep(world.size()));
    const ExpertRanks group(mesh, {all.experts, all.chosen});
    const ExpertNodes nodes(mesh.along(ExpertAxis::Ep), group, all.node);
    std::vector<int32_t> choice;
    for (int64_t token = 0; token < kTokens; ++token) choice.insert(choice.end(), {7, 6});
    const SentRows sent = sent_rows(bench, group, choice, all);
    const Tensor x = bench.random<float>({kTokens, kNodeWidth}, "x");
    const Tensor gates = bench.random<float>({kTokens, 2}, "gates");
    RoutedNodes routed;
    const TrafficTable& traffic = world.ledger().traffic;
    const auto moved = [&](const char* axis) {
      return traffic.of(axis, Operation::AllToAll).elements;
    };
    nodes.route(stream, routed.slots(), routed.sizes, sent.choice, sent.counts, "moe");
    const bool is_far = world.rank() < 2;
    EXPECT_EQ(moved("ep_between"), is_far ? kTokens * all.chosen : 0);  // the choices
    int64_t before = moved("ep_between");
    const auto crossed = [&] {
      return moved("ep_between") - std::exchange(before, moved("ep_between"));
    };
    NodeExchange exchange{stream, nodes, routed};
    const Tensor here = exchange.dispatch(x, gates);
    EXPECT_EQ(crossed(), is_far ? kTokens * (kNodeWidth + 2) : 0);
    // The rank at place 0 of the second node passes on the copies of ranks 0 and 2.
    EXPECT_EQ(moved("ep_inside"), world.rank() == 2 ? 2 * kTokens * 2 * kNodeWidth : 0);
    EXPECT_EQ(here.dim(0), world.rank() == 3 ? 4 * kTokens * 2 : 0);
    Tensor y = bench.empty<float>(x.shape()), dgates = bench.empty<float>(gates.shape());
    exchange.return_outputs(here);
    EXPECT_EQ(crossed(), 0);
    exchange.combine(y);
    EXPECT_EQ(crossed(), is_far ? 0 : kTokens * kNodeWidth);
    const Tensor gradient = exchange.dispatch_backward(dgates, x);
    EXPECT_EQ(crossed(), kTokens * (is_far ? kNodeWidth : 2));
    exchange.combine_backward(y, gradient);
    EXPECT_EQ(crossed(), is_far ? 0 : kTokens * kNodeWidth);
  });
}

TEST(ExpertNodes, MoreRowsThanANodeHasMemoryForEndTheRun) {
  const auto route = [](double capacity) {
    run_ranks(4, [&](Communicator& world) {
      Workbench bench;
      const NodeCase all{4, 2, 8, 2, 6};
      Mesh mesh(world, all_of_ep(world.size()));
      const ExpertRanks group(mesh, {all.experts, all.chosen, capacity});
      const ExpertNodes nodes(mesh.along(ExpertAxis::Ep), group, all.node);
      std::vector<int32_t> choice;
      for (int64_t token = 0; token < all.tokens; ++token)
        choice.insert(choice.end(), {token % 2 == 0 ? 7 : 4, 6});
      const SentRows sent = sent_rows(bench, group, choice, all);
      RoutedNodes routed;
      nodes.route(bench.stream(), routed.slots(), routed.sizes, sent.choice, sent.counts,
                  "layers.0.moe");
    });
  };
  EXPECT_NO_THROW(route(0));
  EXPECT_NO_THROW(route(3));
  EXPECT_ERROR(route(1.9), Memory, "layers.0.moe: ");
}

}  // namespace
}  // namespace sextant
