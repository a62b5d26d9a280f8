#include "mpi/scenarios.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "support/workbench.h"
#include "tensor/convert.h"

namespace sextant {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int64_t kLimit = int64_t{512} << 20;

// What a scenario has made so far.
class Bench {
 public:
  explicit Bench(Communicator& world) : world_(world), workbench_(1, DeviceKind::Cpu, kLimit) {}

  Stream& stream() { return workbench_.stream(); }
  Tensor empty(DType dtype, int64_t count) {
    Tensor tensor = workbench_.arena().allocate(Category::Communication, dtype, {count});
    std::fill_n(tensor.raw(), tensor.bytes(), std::byte{0});
    return tensor;
  }
  // Values that depend on the rank and on `name`; sums of them round.
  Tensor fill(DType dtype, int64_t count, const std::string& name) {
    Tensor tensor = empty(dtype, count);
    const uint64_t seed = stable_hash(concat(name, " ", world_.rank()));
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t bits = (seed + static_cast<uint64_t>(i)) * 0x9e3779b97f4a7c15;
      const double value = static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-61;
      switch (dtype) {
        case DType::F64:
          tensor.data<double>()[i] = value / 3.0;
          break;
        case DType::F32:
          tensor.data<float>()[i] = static_cast<float>(value);
          break;
        case DType::BF16:
          tensor.data<bf16>()[i] = round_nearest<bf16>(value);
          break;
        case DType::F16:
          tensor.data<f16>()[i] = round_nearest<f16>(value);
          break;
        case DType::I32:
          tensor.data<int32_t>()[i] = static_cast<int32_t>(value * 1e6);
          break;
        case DType::I64:
          tensor.data<int64_t>()[i] = static_cast<int64_t>(value * 1e12);
          break;
        default:
          tensor.raw()[i] = static_cast<std::byte>(static_cast<int>(value * 50));
      }
    }
    return tensor;
  }
  void keep(const Tensor& tensor) {
    if (tensor) kept_.insert(kept_.end(), tensor.raw(), tensor.raw() + tensor.bytes());
  }
  Bytes take() { return std::move(kept_); }

 private:
  Communicator& world_;
  Workbench workbench_;
  Bytes kept_;
};

constexpr DType kReducible[] = {DType::F64, DType::F32, DType::BF16,
                                DType::F16, DType::I32, DType::I64};
constexpr ReduceOp kReduceOps[] = {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min};
// None, fewer than ranks, uneven, and more than fits into the staging memory at once.
constexpr int64_t kCounts[] = {0, 1, 1001, 2500000};

// Parts of different sizes, some empty.
std::vector<int64_t> uneven(int ranks, int64_t unit) {
  std::vector<int64_t> sizes;
  sizes.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) sizes.push_back((rank * 2 + 3) % 4 * unit);
  return sizes;
}

int64_t total(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

Bytes reductions(Communicator& world, int64_t count) {
  Bench bench(world);
  const bool is_long = count > 10000;
  for (const DType dtype : kReducible)
    for (const ReduceOp reduce_op : kReduceOps) {
      if (is_long && (reduce_op != ReduceOp::Sum || (dtype != DType::F32 && dtype != DType::BF16)))
        continue;
      Tensor data = bench.fill(dtype, count, "all_reduce");
      world.all_reduce(bench.stream(), data, reduce_op);
      bench.keep(data);
      Tensor rooted = bench.fill(dtype, count, "reduce");
      world.reduce(bench.stream(), rooted, reduce_op, world.size() - 1);
      bench.keep(rooted);
    }
  return bench.take();
}

Bytes scattered_reductions(Communicator& world) {
  Bench bench(world);
  const std::vector<int64_t> sizes = uneven(world.size(), 300);
  const SplitSizes splits[] = {SplitSizes(), SplitSizes(sizes)};
  const int64_t count = total(sizes);
  for (const DType dtype : kReducible)
    for (const SplitSizes& split_sizes : splits)
      for (const Into into : {Into::Replace, Into::Add}) {
        const Range own = split_sizes.part(count, world.size(), world.rank());
        const Tensor in = bench.fill(dtype, count, "reduce_scatter");
        Tensor out = bench.fill(dtype, own.size(), "held");
        world.reduce_scatter(bench.stream(), out, in, ReduceOp::Sum, When::Now, into, split_sizes);
        bench.keep(out);
      }
  Tensor both = bench.fill(DType::F32, count, "in place");
  const Range own = SplitSizes(sizes).part(count, world.size(), world.rank());
  Tensor part = both.slice(own.begin, own.end);
  world.reduce_scatter(bench.stream(), part, both, ReduceOp::Sum, When::Now, Into::Replace,
                       splits[1]);
  bench.keep(part);
  return bench.take();
}

Bytes gathers(Communicator& world, int64_t unit) {
  Bench bench(world);
  const std::vector<int64_t> sizes = uneven(world.size(), unit);
  const SplitSizes splits[] = {SplitSizes(), SplitSizes(sizes)};
  const int64_t count = total(sizes);
  const int root = world.size() / 2;
  for (const DType dtype : {DType::F32, DType::BF16, DType::F8E4M3})
    for (const SplitSizes& split_sizes : splits) {
      const Range own = split_sizes.part(count, world.size(), world.rank());
      const Tensor in = bench.fill(dtype, own.size(), "part");
      Tensor all = bench.empty(dtype, count);
      world.all_gather(bench.stream(), all, in, When::Now, split_sizes);
      bench.keep(all);
      Tensor rooted = world.rank() == root ? bench.empty(dtype, count) : Tensor();
      world.gather(bench.stream(), rooted, in, count, root, When::Now, split_sizes);
      bench.keep(rooted);
      const Tensor whole = world.rank() == root ? bench.fill(dtype, count, "whole") : Tensor();
      Tensor part = bench.empty(dtype, own.size());
      world.scatter(bench.stream(), part, whole, count, root, When::Now, split_sizes);
      bench.keep(part);
      Tensor same = bench.fill(dtype, count, "broadcast");
      world.broadcast(bench.stream(), same, root);
      bench.keep(same);
    }
  return bench.take();
}

Bytes all_to_alls(Communicator& world) {
  Bench bench(world);
  const int ranks = world.size(), rank = world.rank();
  const Tensor even = bench.fill(DType::I64, 6 * ranks, "even");
  Tensor swapped = bench.empty(DType::I64, 6 * ranks);
  world.all_to_all(bench.stream(), swapped, even);
  bench.keep(swapped);
  std::vector<int64_t> sent, received;  // from i to j: 100 i + 7 j, none to itself
  for (int peer = 0; peer < ranks; ++peer) {
    sent.push_back(peer == rank ? 0 : 100 * rank + 7 * peer);
    received.push_back(peer == rank ? 0 : 100 * peer + 7 * rank);
  }
  const Tensor in = bench.fill(DType::F32, total(sent), "uneven");
  Tensor out = bench.empty(DType::F32, total(received));
  world.all_to_all(bench.stream(), out, in, When::Now, SplitSizes(sent), SplitSizes(received));
  bench.keep(out);
  return bench.take();
}

// Around the ring, several under way at once, beside collectives.
Bytes messages(Communicator& world) {
  Bench bench(world);
  if (world.size() == 1) return bench.take();
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  std::vector<Tensor> come;
  std::vector<Pending> pending;
  for (const int64_t count : {3, 0, 70000, 5}) {
    const Tensor go = bench.fill(DType::F32, count, concat("message ", count));
    come.push_back(bench.empty(DType::F32, count));
    pending.push_back(world.receive(bench.stream(), come.back(), before, When::Later));
    pending.push_back(world.send(bench.stream(), go, next, When::Later));
  }
  Tensor data = bench.fill(DType::F32, 100, "between");
  world.all_reduce(bench.stream(), data, ReduceOp::Sum);
  for (Pending& one : pending) one.wait();
  for (const Tensor& one : come) bench.keep(one);
  bench.keep(data);
  return bench.take();
}

// Later ones of several groups in order, the last reading what the first wrote; some waited for by
// their destructors.
Bytes beside(Communicator& world) {
  Bench bench(world);
  std::vector<int> pair =
      ranks_where(world.size(), [&](int rank) { return rank / 2 == world.rank() / 2; });
  std::ranges::reverse(pair);
  const auto pairs = world.subgroup(pair, "pairs");
  const auto alone = pairs->subgroup(std::array{pairs->rank()}, "alone");
  Tensor data = bench.fill(DType::F32, 200000, "later");
  Pending first = world.all_reduce(bench.stream(), data, ReduceOp::Sum, When::Later);
  pairs->order_after(first);
  Pending second = pairs->all_reduce(bench.stream(), data, ReduceOp::Sum, When::Later);
  Tensor other = bench.fill(DType::I32, 10, "other");
  Pending third = alone->all_reduce(bench.stream(), other, ReduceOp::Sum, When::Later);
  std::vector<double> values = {world.rank() / 3.0, 1.0};
  second.wait();
  first.wait();
  world.control().all_reduce(std::span(values), ReduceOp::Sum);
  third.wait();
  bench.keep(data);
  bench.keep(other);
  for (const double value : values) {
    const std::byte* begin = reinterpret_cast<const std::byte*>(&value);
    Tensor as_tensor = bench.empty(DType::F64, 1);
    std::copy_n(begin, sizeof value, as_tensor.raw());
    bench.keep(as_tensor);
  }
  const std::string text =
      world.control().broadcast_text(concat("rank ", world.rank()), world.size() - 1);
  Tensor letters = bench.empty(DType::F8E4M3, static_cast<int64_t>(text.size()));
  std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), letters.raw());
  bench.keep(letters);
  return bench.take();
}

// More than one piece of MPI's.
Bytes large(Communicator& world) {
  Bench bench(world);
  if (world.size() > 2) return bench.take();  // ranks would only do the same again
  Tensor data = bench.fill(DType::F8E4M3, 1000, "seed");
  Tensor big = bench.empty(DType::F8E4M3, (int64_t{64} << 20) + 4321);
  for (int64_t i = 0; i < big.elements() && world.rank() == 0; ++i)
    big.raw()[i] = data.raw()[i % 997];
  world.broadcast(bench.stream(), big, 0);
  bench.keep(big);
  return bench.take();
}

}  // namespace

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all;
  for (const int64_t count : kCounts)
    all.push_back({concat("reductions of ", count),
                   [count](Communicator& world) { return reductions(world, count); }});
  all.push_back({"scattered reductions", scattered_reductions});
  for (const int64_t unit : {0, 1, 20000})
    all.push_back({concat("gathers of ", unit),
                   [unit](Communicator& world) { return gathers(world, unit); }});
  all.push_back({"all to all", all_to_alls});
  all.push_back({"messages", messages});
  all.push_back({"beside", beside});
  all.push_back({"large", large});
  return all;
}

}  // namespace sextant
