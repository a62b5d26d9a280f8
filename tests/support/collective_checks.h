#pragma once
// Every collective against what it is defined to give, for any transport.
#include <gtest/gtest.h>

#include <vector>

#include "comm/communicator.h"
#include "support/rank_values.h"
#include "support/workbench.h"

namespace sextant {

inline constexpr ReduceOp kReduceOps[] = {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min};

// One rank of a world with tensors of T to hand.
template <class T>
class CheckedRank {
 public:
  CheckedRank(Communicator& world, DeviceKind device) : world_(world), bench_(1, device) {}

  Tensor own(int64_t begin, int64_t end) {
    return bench_.make<T>({end - begin}, rank_values<T>(world_.rank(), begin, end));
  }
  Tensor filled(int64_t count, double value) {
    return bench_.make<T>({count}, std::vector<T>(static_cast<size_t>(count), value_as<T>(value)));
  }
  template <class Expected>
  void expect(const Tensor& tensor, int64_t count, const char* what, Expected&& expected) {
    const std::vector<T> values = bench_.read<T>(tensor);
    ASSERT_EQ(static_cast<int64_t>(values.size()), count) << what;
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(value_of(values[static_cast<size_t>(i)]), expected(i))
          << what << " of " << name_of(kDTypeOf<T>) << ", " << world_.size() << " ranks, rank "
          << world_.rank() << ", element " << i << " of " << count;
  }
  Stream& stream() { return bench_.stream(); }

  void all_reduce(int64_t count, When when) {
    for (const ReduceOp reduce_op : kReduceOps) {
      Tensor data = own(0, count);
      world_.all_reduce(stream(), data, reduce_op, when).wait();
      expect(data, count, "all_reduce",
             [&](int64_t i) { return reduced_value(n(), i, reduce_op); });
    }
  }

  void reduce_scatter(int64_t count, const SplitSizes& split_sizes, When when) {
    const Range part = split_sizes.part(count, n(), world_.rank());
    for (const ReduceOp reduce_op : kReduceOps) {
      const auto expected = [&](int64_t i) {
        return reduced_value(n(), part.begin + i, reduce_op);
      };
      Tensor in = own(0, count), out = filled(part.size(), 5);
      world_.reduce_scatter(stream(), out, in, reduce_op, when, Into::Replace, split_sizes).wait();
      expect(out, part.size(), "reduce_scatter", expected);
      expect(in, count, "input", [&](int64_t i) { return rank_value(world_.rank(), i); });
      out = filled(part.size(), 5);
      world_.reduce_scatter(stream(), out, in, reduce_op, when, Into::Add, split_sizes).wait();
      expect(out, part.size(), "added", [&](int64_t i) { return expected(i) + 5; });
      Tensor inside = in.slice(part.begin, part.end);
      world_.reduce_scatter(stream(), inside, in, reduce_op, when, Into::Replace, split_sizes)
          .wait();
      expect(inside, part.size(), "in place", expected);
    }
  }

  void all_gather(int64_t count, const SplitSizes& split_sizes, When when) {
    const Range part = split_sizes.part(count, n(), world_.rank());
    const auto expected = [&](int64_t i) { return rank_value(owner(count, split_sizes, i), i); };
    Tensor in = own(part.begin, part.end), out = filled(count, 9);
    world_.all_gather(stream(), out, in, when, split_sizes).wait();
    expect(out, count, "all_gather", expected);
    Tensor whole = own(0, count);
    world_.all_gather(stream(), whole, whole.slice(part.begin, part.end), when, split_sizes).wait();
    expect(whole, count, "in place", expected);
  }

  // Part `to` of what a rank sends begins at 1000 * to, as if every part were long.
  void all_to_all(const std::vector<std::vector<int64_t>>& sizes, const SplitSizes& send,
                  const SplitSizes& receive, When when) {
    const auto rank = static_cast<size_t>(world_.rank());
    std::vector<T> given;
    std::vector<double> expected;
    for (size_t peer = 0; peer < sizes.size(); ++peer) {
      for (int64_t i = 0; i < sizes[rank][peer]; ++i)
        given.push_back(value_as<T>(rank_value(world_.rank(), 1000 * static_cast<int>(peer) + i)));
      for (int64_t i = 0; i < sizes[peer][rank]; ++i)
        expected.push_back(rank_value(static_cast<int>(peer), 1000 * static_cast<int>(rank) + i));
    }
    Tensor in = bench_.make<T>({static_cast<int64_t>(given.size())}, given);
    Tensor out = filled(static_cast<int64_t>(expected.size()), 9);
    world_.all_to_all(stream(), out, in, when, send, receive).wait();
    expect(out, out.elements(), "all_to_all",
           [&](int64_t i) { return expected[static_cast<size_t>(i)]; });
  }

  void rooted(int64_t count, const SplitSizes& split_sizes, int root, When when) {
    const Range part = split_sizes.part(count, n(), world_.rank());
    const bool is_root = world_.rank() == root;
    Tensor data = own(0, count);
    world_.broadcast(stream(), data, root, when).wait();
    expect(data, count, "broadcast", [&](int64_t i) { return rank_value(root, i); });
    Tensor mine = filled(part.size(), 9);
    world_
        .scatter(stream(), mine, is_root ? own(0, count) : Tensor(), count, root, when, split_sizes)
        .wait();
    expect(mine, part.size(), "scatter",
           [&](int64_t i) { return rank_value(root, part.begin + i); });
    Tensor all = is_root ? filled(count, 9) : Tensor();
    world_.gather(stream(), all, own(part.begin, part.end), count, root, when, split_sizes).wait();
    if (is_root)
      expect(all, count, "gather",
             [&](int64_t i) { return rank_value(owner(count, split_sizes, i), i); });
    for (const ReduceOp reduce_op : kReduceOps) {
      data = own(0, count);
      world_.reduce(stream(), data, reduce_op, root, when).wait();
      expect(data, count, "reduce", [&](int64_t i) {
        return is_root ? reduced_value(n(), i, reduce_op) : rank_value(world_.rank(), i);
      });
    }
  }

 private:
  int n() const { return world_.size(); }
  int owner(int64_t count, const SplitSizes& split_sizes, int64_t element) const {
    int rank = 0;
    while (split_sizes.part(count, n(), rank).end <= element) ++rank;
    return rank;
  }

  Communicator& world_;
  Workbench bench_;
};

// Every collective over `world`, with even and uneven parts, in place and not.
template <class T>
void check_all_collectives(Communicator& world, When when, DeviceKind device) {
  CheckedRank<T> rank(world, device);
  const int n = world.size();
  const std::vector<int64_t> uneven = uneven_sizes(n, 6);
  for (const int64_t count : {0, 1, 37}) {
    rank.all_reduce(count, when);
    rank.reduce_scatter(count, SplitSizes(), when);
    rank.all_gather(count, SplitSizes(), when);
    for (int root = 0; root < n; root += 3) rank.rooted(count, SplitSizes(), root, when);
  }
  rank.all_reduce(9001, when);  // more than a tile
  rank.reduce_scatter(sum_of(uneven), SplitSizes(uneven), when);
  rank.all_gather(sum_of(uneven), SplitSizes(uneven), when);
  rank.rooted(sum_of(uneven), SplitSizes(uneven), n - 1, when);
  std::vector<std::vector<int64_t>> even(static_cast<size_t>(n),
                                         std::vector<int64_t>(static_cast<size_t>(n), 5));
  rank.all_to_all(even, SplitSizes(), SplitSizes(), when);
  std::vector<int64_t> sent, received;
  for (size_t a = 0; a < even.size(); ++a)
    for (size_t b = 0; b < even.size(); ++b) even[a][b] = static_cast<int64_t>(2 * a + b) % 4;
  for (size_t peer = 0; peer < even.size(); ++peer) {
    sent.push_back(even[static_cast<size_t>(world.rank())][peer]);
    received.push_back(even[peer][static_cast<size_t>(world.rank())]);
  }
  rank.all_to_all(even, SplitSizes(sent), SplitSizes(received), when);
}

// What rank 0 has after an all-reduce of numbers whose sum depends on the order in which it is
// made; checks that a reduce-scatter and an all-gather give the same bits and traffic.
template <class T>
std::vector<std::byte> all_reduced_bits(Communicator& world, DeviceKind device, int64_t count) {
  Workbench bench(1, device);
  Tensor data = bench.make<T>({count}, std::vector<T>(static_cast<size_t>(count)));
  {
    const Tensor wide = bench.random<float>({count}, std::to_string(world.rank()));
    std::vector<T> values;
    for (const float x : bench.read<float>(wide)) values.push_back(value_as<T>(x));
    copy_from_host<T>(bench.stream(), data, values);
  }
  Tensor apart = bench.make<T>({count}, bench.read<T>(data));
  const Range part = even_part(count, world.size(), world.rank());
  world.ledger().reset();
  world.all_reduce(bench.stream(), data, ReduceOp::Sum);
  const Traffic whole = world.ledger().traffic.total();
  world.ledger().reset();
  Tensor own = apart.slice(part.begin, part.end);
  world.reduce_scatter(bench.stream(), own, apart, ReduceOp::Sum);
  world.all_gather(bench.stream(), apart, own);
  EXPECT_EQ(bench.bytes(data), bench.bytes(apart));
  EXPECT_EQ(world.ledger().traffic.total().elements, whole.elements);
  EXPECT_EQ(world.ledger().traffic.total().bytes, whole.bytes);
  return bench.bytes(data);
}

}  // namespace sextant
