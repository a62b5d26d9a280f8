// One launch does a collective's work for all ranks. Kernels get the addresses of all ranks by
// value. They move 16 bytes per access where all addresses allow it and single elements otherwise,
// and treat the rest of a range that is no multiple of 16 bytes element by element.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/error.h"
#include "comm/gpu_work.h"
#include "tensor/cuda/queue.h"

namespace sextant {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kMostBlocks = 1024;  // per range: enough to fill a GPU, few enough to be cheap
constexpr int kVectorBytes = 16;

template <class T>
struct Lane {  // f64 and f32
  using Wide = T;
  static __device__ Wide widen(T x) { return x; }
  static __device__ T narrow(Wide x) { return x; }
  static __device__ Wide add(Wide a, Wide b) { return a + b; }
};
template <class T, class Unsigned>
struct IntegerLane {  // adds as unsigned, where overflow wraps around
  using Wide = T;
  static __device__ Wide widen(T x) { return x; }
  static __device__ T narrow(Wide x) { return x; }
  static __device__ Wide add(Wide a, Wide b) {
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  }
};
template <>
struct Lane<int32_t> : IntegerLane<int32_t, uint32_t> {};
template <>
struct Lane<int64_t> : IntegerLane<int64_t, uint64_t> {};
template <>
struct Lane<bf16> {
  using Wide = float;
  static __device__ float widen(bf16 x) { return __bfloat162float(__ushort_as_bfloat16(x.bits)); }
  static __device__ bf16 narrow(float x) { return {__bfloat16_as_ushort(__float2bfloat16_rn(x))}; }
  static __device__ float add(float a, float b) { return a + b; }
};
template <>
struct Lane<f16> {
  using Wide = float;
  static __device__ float widen(f16 x) { return __half2float(__ushort_as_half(x.bits)); }
  static __device__ f16 narrow(float x) { return {__half_as_ushort(__float2half_rn(x))}; }
  static __device__ float add(float a, float b) { return a + b; }
};

// A NaN on either side is kept.
template <Fold kFold, class L>
__device__ typename L::Wide combine(typename L::Wide a, typename L::Wide b) {
  if constexpr (kFold == Fold::Sum) return L::add(a, b);
  if constexpr (kFold == Fold::Max) return (a > b || a != a) ? a : b;
  if constexpr (kFold == Fold::Min) return (a < b || a != a) ? a : b;
}

// Elements [begin, end) of every rank's input, reduced into out[0 ... end - begin - 1].
struct FoldPart {
  int64_t begin, end;
  std::byte* out;
};
struct FoldTask {
  const std::byte* in[kMostGpuRanks];
  FoldPart parts[kMostGpuRanks];
  int ranks;
  Into into;
};
// All elements of every rank's input, reduced into every output.
struct FoldToAllTask {
  const std::byte* in[kMostGpuRanks];
  std::byte* out[kMostGpuRanks];
  int ranks;
  int64_t count;
};
// A range of bytes that is copied to the same place, `begin` bytes into each of the outputs.
struct SpreadPart {
  const std::byte* in;
  int64_t begin, bytes;
};
struct SpreadTask {
  SpreadPart parts[kMostGpuRanks];
  std::byte* out[kMostGpuRanks];
  int ranks;
};
struct CopyPart {
  std::byte* out;
  const std::byte* in;
  int64_t bytes;
};
struct CopyTask {
  CopyPart parts[kMostGpuRanks];
};

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

// The reduction of kCount elements at `at` of every input.
template <class T, Fold kFold, int kCount>
__device__ void fold_pack(typename Lane<T>::Wide* sum, const std::byte* const* in, int ranks,
                          int64_t at) {
  using L = Lane<T>;
  const auto load = [&](int rank) {
    return *reinterpret_cast<const Pack<T, kCount>*>(reinterpret_cast<const T*>(in[rank]) + at);
  };
  const Pack<T, kCount> first = load(0);
  for (int i = 0; i < kCount; ++i) sum[i] = L::widen(first.values[i]);
  for (int rank = 1; rank < ranks; ++rank) {
    const Pack<T, kCount> next = load(rank);
    for (int i = 0; i < kCount; ++i) sum[i] = combine<kFold, L>(sum[i], L::widen(next.values[i]));
  }
}

template <class T, Fold kFold, int kCount>
__device__ void fold_one(const FoldTask& task, T* out, int64_t begin, int64_t at) {
  using L = Lane<T>;
  typename L::Wide sum[kCount];
  fold_pack<T, kFold, kCount>(sum, task.in, task.ranks, begin + at);
  auto* to = reinterpret_cast<Pack<T, kCount>*>(out + at);
  Pack<T, kCount> result;
  if (task.into == Into::Add) {
    const Pack<T, kCount> old = *to;
    for (int i = 0; i < kCount; ++i) sum[i] = L::add(L::widen(old.values[i]), sum[i]);
  }
  for (int i = 0; i < kCount; ++i) result.values[i] = L::narrow(sum[i]);
  *to = result;
}

// f<kCount>(element) over all packs of a range of `count` elements, then f<1> over the rest.
template <int kCount, class F>
__device__ void for_packs(int64_t count, F&& f) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t packs = count / kCount;
  for (int64_t pack = first; pack < packs; pack += stride)
    f.template operator()<kCount>(pack * kCount);
  for (int64_t at = packs * kCount + first; at < count; at += stride) f.template operator()<1>(at);
}

template <class T, Fold kFold>
struct FoldAt {
  const FoldTask& task;
  const FoldPart& part;
  template <int kSize>
  __device__ void operator()(int64_t at) const {
    fold_one<T, kFold, kSize>(task, reinterpret_cast<T*>(part.out), part.begin, at);
  }
};

template <class T, Fold kFold, int kCount>
__global__ void fold_parts(const __grid_constant__ FoldTask task) {
  const FoldPart& part = task.parts[blockIdx.y];
  for_packs<kCount>(part.end - part.begin, FoldAt<T, kFold>{task, part});
}

template <class T, Fold kFold>
struct FoldToAllAt {
  const FoldToAllTask& task;
  template <int kSize>
  __device__ void operator()(int64_t at) const {
    using L = Lane<T>;
    typename L::Wide sum[kSize];
    fold_pack<T, kFold, kSize>(sum, task.in, task.ranks, at);
    Pack<T, kSize> result;
    for (int i = 0; i < kSize; ++i) result.values[i] = L::narrow(sum[i]);
    for (int rank = 0; rank < task.ranks; ++rank)
      *reinterpret_cast<Pack<T, kSize>*>(reinterpret_cast<T*>(task.out[rank]) + at) = result;
  }
};

template <class T, Fold kFold, int kCount>
__global__ void fold_to_all(const __grid_constant__ FoldToAllTask task) {
  for_packs<kCount>(task.count, FoldToAllAt<T, kFold>{task});
}

// Copies in units of bytes, so that one kernel serves all types; elements are at least 1 byte.
template <int kSize>
__device__ Pack<uint8_t, kSize> load_bytes(const std::byte* from) {
  return *reinterpret_cast<const Pack<uint8_t, kSize>*>(from);
}

struct SpreadAt {
  const SpreadTask& task;
  const SpreadPart& part;
  template <int kSize>
  __device__ void operator()(int64_t at) const {
    const std::byte* from = part.in + at;
    const Pack<uint8_t, kSize> bytes = load_bytes<kSize>(from);
    for (int rank = 0; rank < task.ranks; ++rank) {
      std::byte* to = task.out[rank] + part.begin + at;
      if (to != from) *reinterpret_cast<Pack<uint8_t, kSize>*>(to) = bytes;
    }
  }
};

template <int kUnit>
__global__ void spread_parts(const __grid_constant__ SpreadTask task) {
  const SpreadPart& part = task.parts[blockIdx.y];
  for_packs<kUnit>(part.bytes, SpreadAt{task, part});
}

struct CopyAt {
  const CopyPart& part;
  template <int kSize>
  __device__ void operator()(int64_t at) const {
    *reinterpret_cast<Pack<uint8_t, kSize>*>(part.out + at) = load_bytes<kSize>(part.in + at);
  }
};

template <int kUnit>
__global__ void copy_parts(const __grid_constant__ CopyTask task) {
  for_packs<kUnit>(task.parts[blockIdx.y].bytes, CopyAt{task.parts[blockIdx.y]});
}

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

// f.template operator()<element type, fold>() for runtime values.
template <class T, class F>
void with_fold(Fold fold, F&& f) {
  switch (fold) {
    case Fold::Sum:
      return f.template operator()<T, Fold::Sum>();
    case Fold::Max:
      return f.template operator()<T, Fold::Max>();
    case Fold::Min:
      return f.template operator()<T, Fold::Min>();
  }
}

template <class F>
void with_types(DType dtype, Fold fold, F&& f) {
  switch (dtype) {
    case DType::F64:
      return with_fold<double>(fold, f);
    case DType::F32:
      return with_fold<float>(fold, f);
    case DType::BF16:
      return with_fold<bf16>(fold, f);
    case DType::F16:
      return with_fold<f16>(fold, f);
    case DType::I32:
      return with_fold<int32_t>(fold, f);
    case DType::I64:
      return with_fold<int64_t>(fold, f);
    default:
      SXT_FAIL(Internal, "a fold of ", name_of(dtype));
  }
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

Range part_of(const Cut& cut, int64_t total, Calls calls, size_t rank) {
  return cut.part(total, static_cast<int>(calls.size()), static_cast<int>(rank));
}

void all_reduce(cudaStream_t queue, Calls calls) {
  const Call& call = *calls[0];
  if (call.count == 0 || (calls.size() == 1 && call.in == call.out)) return;
  FoldToAllTask task;
  task.ranks = static_cast<int>(calls.size());
  task.count = call.count;
  Alignment alignment;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    task.in[rank] = calls[rank]->in;
    task.out[rank] = calls[rank]->out;
    alignment.add(task.in[rank]);
    alignment.add(task.out[rank]);
  }
  with_types(call.dtype, call.fold, [&]<class T, Fold kFold>() {
    constexpr int kCount = kVectorBytes / static_cast<int>(sizeof(T));
    if (alignment.bytes() == kVectorBytes)
      fold_to_all<T, kFold, kCount><<<grid_of(call.count / kCount, 1), kBlock, 0, queue>>>(task);
    else
      fold_to_all<T, kFold, 1><<<grid_of(call.count, 1), kBlock, 0, queue>>>(task);
  });
  check_launch(call);
}

void fold(cudaStream_t queue, Calls calls, std::span<const FoldPart> parts) {
  const Call& call = *calls[0];
  FoldTask task;
  task.ranks = static_cast<int>(calls.size());
  task.into = call.operation == Operation::ReduceScatter ? call.into : Into::Replace;
  std::ranges::copy(parts, task.parts);
  Alignment alignment;
  for (size_t rank = 0; rank < calls.size(); ++rank) task.in[rank] = calls[rank]->in;
  int64_t longest = 0;
  for (const FoldPart& part : parts) {
    longest = std::max(longest, part.end - part.begin);
    if (part.end == part.begin) continue;
    alignment.add(part.out);
    for (size_t rank = 0; rank < calls.size(); ++rank)
      alignment.add(task.in[rank] + part.begin * size_of(call.dtype));
  }
  if (longest == 0) return;
  with_types(call.dtype, call.fold, [&]<class T, Fold kFold>() {
    constexpr int kCount = kVectorBytes / static_cast<int>(sizeof(T));
    const dim3 packs = grid_of(longest / kCount, parts.size());
    if (alignment.bytes() == kVectorBytes)
      fold_parts<T, kFold, kCount><<<packs, kBlock, 0, queue>>>(task);
    else
      fold_parts<T, kFold, 1><<<grid_of(longest, parts.size()), kBlock, 0, queue>>>(task);
  });
  check_launch(call);
}

void reduce_scatter(cudaStream_t queue, Calls calls) {
  PerRank<FoldPart> parts;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const Range part = part_of(calls[0]->cut, calls[0]->count, calls, rank);
    parts.push_back({part.begin, part.end, calls[rank]->out});
  }
  fold(queue, calls, parts);
}

void reduce(cudaStream_t queue, Calls calls) {
  const FoldPart whole{0, calls[0]->count, calls[static_cast<size_t>(calls[0]->root)]->out};
  fold(queue, calls, {&whole, 1});
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
    const Range part = part_of(calls[0]->cut, calls[0]->count, calls, rank);
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
      const Range sent = part_of(calls[from]->cut, calls[from]->count, calls, to);
      const Range received = part_of(receiver.receive_cut, receiver.received, calls, from);
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
    const Range part = part_of(root.cut, root.count, calls, rank);
    parts.push_back({calls[rank]->out, root.in + part.begin * size, part.size() * size});
  }
  copy(queue, root, parts);
}

void gather(cudaStream_t queue, Calls calls) {
  const Call& root = *calls[static_cast<size_t>(calls[0]->root)];
  const int64_t size = size_of(root.dtype);
  PerRank<CopyPart> parts;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const Range part = part_of(root.cut, root.count, calls, rank);
    parts.push_back({root.out + part.begin * size, calls[rank]->in, part.size() * size});
  }
  copy(queue, root, parts);
}

}  // namespace

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
