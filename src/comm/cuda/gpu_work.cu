// One launch does a collective's work for all ranks. Kernels get the addresses of all ranks by
// value.
#include <algorithm>

#include "base/error.h"
#include "comm/cuda/gpu_kernels.cuh"
#include "comm/with_types.h"
#include "tensor/cuda/queue.h"

namespace sextant {
namespace {

// The largest power of two up to 16 that divides all addresses added.
class Alignment {
 public:
  void add(const std::byte* address) { bits_ |= reinterpret_cast<uintptr_t>(address); }
  int bytes() const {
    return static_cast<int>(std::min<uintptr_t>(kVectorBytes, bits_ & (~bits_ + 1)));
  }

 private:
  uintptr_t bits_ = kVectorBytes;
};

dim3 grid_of(int64_t most_packs, size_t ranges) {
  const int64_t blocks = (most_packs + kBlock - 1) / kBlock;
  return dim3(static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, kMostBlocks)),
              static_cast<unsigned>(ranges));
}

void check_launch(const Call& call) {
  cuda::check(cudaGetLastError(), name_of(call.operation));
}

using Calls = std::span<const Call* const>;

// At most one entry per rank, without a heap allocation: steps make none.
template <class T>
class PerRank {
 public:
  void push_back(const T& value) { values_[size_++] = value; }
  size_t size() const { return size_; }
  const T& operator[](size_t i) const { return values_[i]; }
  operator std::span<const T>() const { return {values_.data(), size_}; }

 private:
  std::array<T, kMostGpuRanks> values_;
  size_t size_ = 0;
};

Range part_of(const SplitSizes& split_sizes, int64_t total, Calls calls, size_t rank) {
  return split_sizes.part(total, static_cast<int>(calls.size()), static_cast<int>(rank));
}

void all_reduce(cudaStream_t queue, Calls calls) {
  const Call& call = *calls[0];
  if (call.count == 0 || (calls.size() == 1 && call.in == call.out)) return;
  ReduceToAllTask task;
  task.ranks = static_cast<int>(calls.size());
  task.count = call.count;
  Alignment alignment;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    task.in[rank] = calls[rank]->in;
    task.out[rank] = calls[rank]->out;
    alignment.add(task.in[rank]);
    alignment.add(task.out[rank]);
  }
  with_types(call.dtype, call.reduce_op, [&]<class T, ReduceOp kOp>() {
    constexpr int kCount = kVectorBytes / static_cast<int>(sizeof(T));
    if (alignment.bytes() == kVectorBytes)
      reduce_to_all<T, kOp, kCount><<<grid_of(call.count / kCount, 1), kBlock, 0, queue>>>(task);
    else
      reduce_to_all<T, kOp, 1><<<grid_of(call.count, 1), kBlock, 0, queue>>>(task);
  });
  check_launch(call);
}

// What is reduced, and how.
struct Reduction {
  DType dtype;
  ReduceOp reduce_op;
  Into into;
};

void reduce(cudaStream_t queue, std::span<const std::byte* const> in,
            std::span<const ReducePart> parts, const Reduction& reduction) {
  ReduceTask task;
  task.ranks = static_cast<int>(in.size());
  task.into = reduction.into;
  std::ranges::copy(parts, task.parts);
  std::ranges::copy(in, task.in);
  Alignment alignment;
  int64_t longest = 0;
  for (const ReducePart& part : parts) {
    longest = std::max(longest, part.end - part.begin);
    if (part.end == part.begin) continue;
    alignment.add(part.out);
    for (const std::byte* from : in) alignment.add(from + part.begin * size_of(reduction.dtype));
  }
  if (longest == 0) return;
  with_types(reduction.dtype, reduction.reduce_op, [&]<class T, ReduceOp kOp>() {
    constexpr int kCount = kVectorBytes / static_cast<int>(sizeof(T));
    const dim3 packs = grid_of(longest / kCount, parts.size());
    if (alignment.bytes() == kVectorBytes)
      reduce_parts<T, kOp, kCount><<<packs, kBlock, 0, queue>>>(task);
    else
      reduce_parts<T, kOp, 1><<<grid_of(longest, parts.size()), kBlock, 0, queue>>>(task);
  });
}

void reduce(cudaStream_t queue, Calls calls, std::span<const ReducePart> parts) {
  const Call& call = *calls[0];
  PerRank<const std::byte*> in;
  for (const Call* one : calls) in.push_back(one->in);
  const Into into = call.operation == Operation::ReduceScatter ? call.into : Into::Replace;
  reduce(queue, in, parts, {call.dtype, call.reduce_op, into});
  check_launch(call);
}

void reduce_scatter(cudaStream_t queue, Calls calls) {
  PerRank<ReducePart> parts;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const Range part = part_of(calls[0]->split_sizes, calls[0]->count, calls, rank);
    parts.push_back({part.begin, part.end, calls[rank]->out});
  }
  reduce(queue, calls, parts);
}

void reduce(cudaStream_t queue, Calls calls) {
  const ReducePart whole{0, calls[0]->count, calls[static_cast<size_t>(calls[0]->root)]->out};
  reduce(queue, calls, {&whole, 1});
}

// Calls f with an integral constant: how many bytes a kernel moves at a time.
template <class F>
void with_unit(int alignment, F&& f) {
  switch (alignment) {
    case 16:
      return f.template operator()<16>();
    case 8:
      return f.template operator()<8>();
    case 4:
      return f.template operator()<4>();
    case 2:
      return f.template operator()<2>();
    default:
      return f.template operator()<1>();
  }
}

void spread(cudaStream_t queue, Calls calls, std::span<const SpreadPart> parts) {
  SpreadTask task;
  task.ranks = static_cast<int>(calls.size());
  std::ranges::copy(parts, task.parts);
  for (size_t rank = 0; rank < calls.size(); ++rank) task.out[rank] = calls[rank]->out;
  Alignment alignment;
  int64_t longest = 0;
  bool moves = false;
  for (const SpreadPart& part : parts) {
    if (part.bytes == 0) continue;
    longest = std::max(longest, part.bytes);
    alignment.add(part.in);
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      alignment.add(task.out[rank] + part.begin);
      moves = moves || task.out[rank] + part.begin != part.in;
    }
  }
  if (!moves) return;
  with_unit(alignment.bytes(), [&]<int kUnit>() {
    spread_parts<kUnit><<<grid_of(longest / kUnit, parts.size()), kBlock, 0, queue>>>(task);
  });
  check_launch(*calls[0]);
}

void all_gather(cudaStream_t queue, Calls calls) {
  const int64_t size = size_of(calls[0]->dtype);
  PerRank<SpreadPart> parts;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const Range part = part_of(calls[0]->split_sizes, calls[0]->count, calls, rank);
    parts.push_back({calls[rank]->in, part.begin * size, part.size() * size});
  }
  spread(queue, calls, parts);
}

void broadcast(cudaStream_t queue, Calls calls) {
  const Call& root = *calls[static_cast<size_t>(calls[0]->root)];
  const SpreadPart whole{root.out, 0, root.count * size_of(root.dtype)};
  spread(queue, calls, {&whole, 1});
}

// At most kMostGpuRanks parts.
void copy(cudaStream_t queue, const Call& call, std::span<const CopyPart> parts) {
  CopyTask task;
  std::ranges::copy(parts, task.parts);
  Alignment alignment;
  int64_t longest = 0;
  for (const CopyPart& part : parts) {
    if (part.bytes == 0) continue;
    longest = std::max(longest, part.bytes);
    alignment.add(part.in);
    alignment.add(part.out);
  }
  if (longest == 0) return;
  with_unit(alignment.bytes(), [&]<int kUnit>() {
    copy_parts<kUnit><<<grid_of(longest / kUnit, parts.size()), kBlock, 0, queue>>>(task);
  });
  check_launch(call);
}

// One launch per receiver.
void all_to_all(cudaStream_t queue, Calls calls) {
  const int64_t size = size_of(calls[0]->dtype);
  for (size_t to = 0; to < calls.size(); ++to) {
    const Call& receiver = *calls[to];
    PerRank<CopyPart> parts;
    for (size_t from = 0; from < calls.size(); ++from) {
      const Range sent = part_of(calls[from]->split_sizes, calls[from]->count, calls, to);
      const Range received = part_of(receiver.receive_split_sizes, receiver.received, calls, from);
      parts.push_back({receiver.out + received.begin * size, calls[from]->in + sent.begin * size,
                       received.size() * size});
    }
    copy(queue, receiver, parts);
  }
}

void scatter(cudaStream_t queue, Calls calls) {
  const Call& root = *calls[static_cast<size_t>(calls[0]->root)];
  const int64_t size = size_of(root.dtype);
  PerRank<CopyPart> parts;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const Range part = part_of(root.split_sizes, root.count, calls, rank);
    parts.push_back({calls[rank]->out, root.in + part.begin * size, part.size() * size});
  }
  copy(queue, root, parts);
}

void gather(cudaStream_t queue, Calls calls) {
  const Call& root = *calls[static_cast<size_t>(calls[0]->root)];
  const int64_t size = size_of(root.dtype);
  PerRank<CopyPart> parts;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const Range part = part_of(root.split_sizes, root.count, calls, rank);
    parts.push_back({root.out + part.begin * size, calls[rank]->in, part.size() * size});
  }
  copy(queue, root, parts);
}

void fold(cudaStream_t queue, std::span<const std::byte* const> in, const ReducePart& whole,
          const Reduction& reduction) {
  static_assert(sizeof(FoldTask) <= 32764);
  if (whole.end == 0) return;
  FoldTask task;
  task.part = whole;
  task.ranks = static_cast<int>(in.size());
  task.into = reduction.into;
  std::ranges::copy(in, task.in);
  Alignment alignment;
  alignment.add(whole.out);
  for (const std::byte* from : in) alignment.add(from);
  with_types(reduction.dtype, reduction.reduce_op, [&]<class T, ReduceOp kOp>() {
    constexpr int kCount = kVectorBytes / static_cast<int>(sizeof(T));
    if (alignment.bytes() == kVectorBytes)
      fold_many<T, kOp, kCount><<<grid_of(whole.end / kCount, 1), kBlock, 0, queue>>>(task);
    else
      fold_many<T, kOp, 1><<<grid_of(whole.end, 1), kBlock, 0, queue>>>(task);
  });
}

}  // namespace

void fold_on_gpu(gpu::Queue& queue, std::byte* out, std::span<const std::byte* const> in,
                 int64_t count, DType dtype, ReduceOp reduce_op, Into into) {
  SXT_CHECK(static_cast<int>(in.size()) <= kMostFolded, Internal, "a fold of ", in.size(),
            " inputs");
  cuda::check(cudaSetDevice(queue.index()), "cudaSetDevice");
  const ReducePart whole{0, count, out};
  const Reduction reduction{dtype, reduce_op, into};
  if (static_cast<int>(in.size()) <= kMostGpuRanks)
    reduce(queue.handle(), in, {&whole, 1}, reduction);
  else
    fold(queue.handle(), in, whole, reduction);
  cuda::check(cudaGetLastError(), "fold_on_gpu");
}

void count_on_gpu(gpu::Queue& queue, int64_t* counter) {
  cuda::check(cudaSetDevice(queue.index()), "cudaSetDevice");
  count_up<<<1, 1, 0, queue.handle()>>>(counter);
  cuda::check(cudaGetLastError(), "count_on_gpu");
}

void work_on_gpu(gpu::Queue& queue, std::span<const Call* const> calls) {
  SXT_CHECK(static_cast<int>(calls.size()) <= kMostGpuRanks, Config, calls.size(),
            " ranks share a GPU: at most ", kMostGpuRanks, " can");
  cuda::check(cudaSetDevice(queue.index()), "cudaSetDevice");
  switch (calls[0]->operation) {
    case Operation::AllReduce:
      return all_reduce(queue.handle(), calls);
    case Operation::ReduceScatter:
      return reduce_scatter(queue.handle(), calls);
    case Operation::AllGather:
      return all_gather(queue.handle(), calls);
    case Operation::AllToAll:
      return all_to_all(queue.handle(), calls);
    case Operation::Broadcast:
      return broadcast(queue.handle(), calls);
    case Operation::Scatter:
      return scatter(queue.handle(), calls);
    case Operation::Gather:
      return gather(queue.handle(), calls);
    case Operation::Reduce:
      return reduce(queue.handle(), calls);
    case Operation::Barrier:
    case Operation::Send:
    case Operation::Receive:
      return;
  }
}

}  // namespace sextant
