#include "parallel/expert_nodes.h"

#include <gtest/gtest.h>

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

// Tokens and gates there and back, by nodes and without: the same rows in the same order.
void expect_what_the_flat_exchange_does(const NodeCase& all, bool drops) {
  run_ranks(all.ranks, [&](Communicator& world) {
    Workbench bench;
    Stream& stream = bench.stream();
    Mesh mesh(world, all_of_ep(world.size()));
    const ExpertRanks group(mesh, {all.experts, all.chosen});
    const ExpertNodes nodes(mesh.along(ExpertAxis::Ep), group, all.node);
    const SentRows sent = sent_rows(bench, group, choices_of(all, world.rank(), drops), all);
    const int64_t pairs = all.tokens * all.chosen;
    const std::string name = std::to_string(world.rank());
    const Tensor x = bench.random<float>({all.tokens, kNodeWidth}, "x" + name);
    const Tensor gates = bench.random<float>({all.tokens, all.chosen}, "gates" + name);
    Tensor crossing, local, counts;
    const ExpertNodes::Slots slots{crossing, local, counts};
    std::vector<int64_t> flat, sizes;
    group.read_sizes(stream, flat, sent.counts, pairs, "moe");
    nodes.route(stream, slots, sizes, sent.choice, sent.counts, "moe");
    for (const bool is_scaled : {false, true}) {
      Tensor rows = bench.make<float>({pairs, kNodeWidth}, std::vector<float>(pairs * kNodeWidth));
      Tensor unused = bench.empty<float>({all.tokens, all.chosen});
      if (is_scaled)
        moe_combine_backward(stream, rows, unused, x, rows, gates, sent.places);
      else
        moe_permute(stream, rows, x, sent.places);
      const Tensor wanted = group.dispatch(stream, rows, sent.counts, flat);
      const Tensor here = nodes.dispatch(stream, x, is_scaled ? gates : Tensor(), slots, sizes);
      EXPECT_EQ(bench.read<float>(here), bench.read<float>(wanted)) << "rank " << name;
      const Tensor back = group.combine(stream, wanted, sent.counts, flat, pairs);
      const Tensor returned = nodes.combine(stream, here, sent.counts, slots, sizes, pairs);
      int64_t kept = 0;
      for (const int32_t place : bench.read<int32_t>(sent.places)) kept += place != kDropped;
      EXPECT_EQ(bench.read<float>(returned.slice(0, kept)), bench.read<float>(back.slice(0, kept)))
          << "rank " << name;
    }
  });
}

TEST(ExpertNodes, MoveTheRowsOfTheFlatExchangeInItsOrder) {
  for (const bool drops : {false, true})
    for (const NodeCase& all : {NodeCase{4, 2, 8, 2, 7},
                                {8, 2, 16, 3, 9},
                                {8, 4, 16, 3, 9},
                                {6, 3, 6, 2, 1},
                                {4, 2, 4, 4, 5}})
      expect_what_the_flat_exchange_does(all, drops);
}

// Each of 6 tokens of each rank chooses both experts of rank 3: it crosses from the ranks of the
// first node once, with its two choices, and is copied there. Its two results come back.
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
    Tensor crossing, local, counts;
    const ExpertNodes::Slots slots{crossing, local, counts};
    std::vector<int64_t> sizes;
    const TrafficTable& traffic = world.ledger().traffic;
    const auto moved = [&](const char* axis) {
      return traffic.of(axis, Operation::AllToAll).elements;
    };
    nodes.route(stream, slots, sizes, sent.choice, sent.counts, "moe");
    const bool is_far = world.rank() < 2;
    EXPECT_EQ(moved("ep_between"), is_far ? kTokens * all.chosen : 0);  // the choices
    const int64_t before = moved("ep_between");
    const Tensor here = nodes.dispatch(stream, x, {}, slots, sizes);
    EXPECT_EQ(moved("ep_between") - before, is_far ? kTokens * kNodeWidth : 0);
    // The rank at place 0 of the second node passes on the copies of ranks 0 and 2.
    EXPECT_EQ(moved("ep_inside"), world.rank() == 2 ? 2 * kTokens * 2 * kNodeWidth : 0);
    EXPECT_EQ(here.dim(0), world.rank() == 3 ? 4 * kTokens * 2 : 0);
    const int64_t there = moved("ep_between");
    nodes.combine(stream, here, sent.counts, slots, sizes, kTokens * all.chosen);
    EXPECT_EQ(moved("ep_between") - there, is_far ? 0 : kTokens * 2 * kNodeWidth);
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
      Tensor crossing, local, counts;
      std::vector<int64_t> sizes;
      nodes.route(bench.stream(), {crossing, local, counts}, sizes, sent.choice, sent.counts,
                  "layers.0.moe");
    });
  };
  EXPECT_NO_THROW(route(0));
  EXPECT_NO_THROW(route(3));
  EXPECT_ERROR(route(1.9), Memory, "layers.0.moe: ");
}

}  // namespace
}  // namespace sextant
