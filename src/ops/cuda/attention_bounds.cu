#include "ops/cuda/attention_bounds.h"

#include "ops/cuda/launch.cuh"

namespace sextant::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMendThreads = 1024, kMendWarps = kMendThreads / 32;

// One of the two bounds of all queries. Without `given` it is token + 1.
struct Bound {
  const int32_t* given = nullptr;
  int64_t limit = 0;  // the most; token if negative

  __device__ int value(int64_t at, int token) const {
    return given == nullptr ? token + 1 : given[at];
  }
  __device__ int most(int token) const { return limit < 0 ? token : static_cast<int>(limit); }
  // Clamped to 0 ... most, without regard to the bounds before it.
  __device__ int clamped(int64_t at, int token) const {
    return given == nullptr ? token + 1 : max(0, min(value(at, token), most(token)));
  }
  __device__ bool is_bad(int64_t at, int token) const {
    if (given == nullptr) return false;
    const int now = value(at, token);
    return now < (token == 0 ? 0 : value(at - 1, token)) || now > most(token);
  }
};

// The maximum of 0 and what the threads before this one give.
__device__ int maximum_before(int own, int* of_warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int most = own;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(0xffffffffU, most, step);
    if (lane >= step) most = max(most, before);
  }
  if (lane == 31) of_warps[warp] = most;
  __syncthreads();
  int out = __shfl_up_sync(0xffffffffU, most, 1);
  if (lane == 0) out = 0;
  for (int i = 0; i < warp; ++i) out = max(out, of_warps[i]);
  __syncthreads();
  return out;
}

// A block for each row of the batch, some consecutive tokens for each thread. A query sees the last
// `window` keys of its range, 0: all. first_bad: the first token with a bad begin, then that with a
// bad end; seq if there is none.
__global__ void __launch_bounds__(kMendThreads)
    mend_bounds(int2* ranges, int2* first_bad, const RowLengths lengths, const Bound begin,
                const Bound end, const int seq, const int window) {
  __shared__ int of_warps[kMendWarps];
  __shared__ int bad_begin, bad_end;
  if (threadIdx.x == 0) {
    bad_begin = seq;
    bad_end = seq;
  }
  __syncthreads();
  const int64_t row = int64_t{blockIdx.x} * seq;
  const int each = (seq + kMendThreads - 1) / kMendThreads;
  const int first = min(seq, static_cast<int>(threadIdx.x) * each), last = min(seq, first + each);
  int most_begin = 0, most_end = 0, own_bad_begin = seq, own_bad_end = seq;
  for (int token = last - 1; token >= first; --token) {
    most_begin = max(most_begin, begin.clamped(row + token, token));
    most_end = max(most_end, end.clamped(row + token, token));
    if (begin.is_bad(row + token, token)) own_bad_begin = token;
    if (end.is_bad(row + token, token)) own_bad_end = token;
  }
  if (own_bad_begin < seq) atomicMin(&bad_begin, own_bad_begin);
  if (own_bad_end < seq) atomicMin(&bad_end, own_bad_end);
  int2 range;
  range.x = maximum_before(most_begin, of_warps);
  range.y = maximum_before(most_end, of_warps);
  for (int token = first; token < last; ++token) {
    range.x = max(range.x, begin.clamped(row + token, token));
    range.y = max(range.y, end.clamped(row + token, token));
    ranges[row + token] = {window > 0 ? max(range.x, range.y - window) : range.x, range.y};
  }
  if (lengths.data != nullptr &&
      threadIdx.x == kMendThreads - 1)  // has the last begin, the largest
    for (int i = 0; i < lengths.copies; ++i)
      lengths.data[int64_t{blockIdx.x} * lengths.copies + i] = range.x == 0 ? seq : 0;
  if (threadIdx.x == 0) first_bad[blockIdx.x] = {bad_begin, bad_end};
}

// The numbers of the messages about a bad begin and a bad end.
struct Messages {
  int32_t begin = 0, end = 0;
};

__device__ void report(DeviceFault* fault, int32_t message, const Bound& bound, int row, int token,
                       int seq) {
  if (fault->message != 0) return;
  const int64_t at = int64_t{row} * seq + token;
  fault->message = message;
  fault->values[0] = token;
  fault->values[1] = row;
  fault->values[2] = bound.value(at, token);
  if (bound.limit < 0) {
    fault->values[3] = token;
    fault->values[4] = 0;
  } else {
    fault->values[3] = token == 0 ? 0 : bound.value(at - 1, token);
    fault->values[4] = bound.limit;
  }
}

// The first bad begin of all rows or, without one, the first bad end. Also what all lengths are.
__global__ void __launch_bounds__(kThreads)
    report_bounds(DeviceFault* fault, const int2* first_bad, const RowLengths lengths,
                  const Messages messages, const Bound begin, const Bound end, const int batch,
                  const int seq) {
  __shared__ int bad_begin, bad_end;  // rows
  __shared__ int are_all_seq;
  if (threadIdx.x == 0) {
    bad_begin = batch;
    bad_end = batch;
    are_all_seq = 1;
  }
  __syncthreads();
  for (int row = static_cast<int>(threadIdx.x); row < batch; row += kThreads) {
    if (first_bad[row].x < seq) atomicMin(&bad_begin, row);
    if (first_bad[row].y < seq) atomicMin(&bad_end, row);
    if (lengths.data != nullptr && lengths.data[row * lengths.copies] != seq) are_all_seq = 0;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (lengths.data != nullptr) *lengths.are_all_seq = are_all_seq;
  if (bad_begin < batch)
    report(fault, messages.begin, begin, bad_begin, first_bad[bad_begin].x, seq);
  else if (bad_end < batch)
    report(fault, messages.end, end, bad_end, first_bad[bad_end].y, seq);
}

__global__ void __launch_bounds__(kThreads)
    fill_ranges(int2* ranges, const int count, const int seq, const int past, const int step,
                const int window) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= count) return;
  const int end = past + 1 + i % seq * step;
  ranges[i] = {window > 0 ? max(0, end - window) : 0, end};
}

const int2* mended(Stream& stream, Scratch& scratch, const char* op, const Bound& begin,
                   const Bound& end, const RowLengths& lengths, const Messages& messages,
                   const Heads& heads, int64_t window) {
  int2* ranges = scratch.take<int2>(heads.tokens());
  int2* first_bad = scratch.take<int2>(heads.batch);
  const int batch = static_cast<int>(heads.batch), seq = static_cast<int>(heads.seq);
  launch(stream, op, mend_bounds, batch, kMendThreads, 0, ranges, first_bad, lengths, begin, end,
         seq, static_cast<int>(window));
  launch(stream, op, report_bounds, 1, kThreads, 0, fault_of(stream), first_bad, lengths, messages,
         begin, end, batch, seq);
  return ranges;
}

}  // namespace

const int2* causal_ranges(Stream& stream, Scratch& scratch, const Tensor& starts,
                          const Heads& heads, const RowLengths& lengths) {
  const int32_t message = message_of(
      Fault::Usage, "attention",
      "token % of row % starts at %, must be between the start of the token before and %");
  return mended(stream, scratch, "attention", {starts.data<int32_t>(), -1}, {nullptr, 0}, lengths,
                {message, 0}, heads, heads.window);
}

const int2* given_ranges(Stream& stream, Scratch& scratch, const char* op, const Tensor& begin,
                         const Tensor& end, const Heads& heads, int64_t kv_seq) {
  const Messages messages = {
      message_of(Fault::Usage, op, "begin of token % of row % is %, must be between % and %"),
      message_of(Fault::Usage, op, "end of token % of row % is %, must be between % and %")};
  return mended(stream, scratch, op, {begin.data<int32_t>(), kv_seq}, {end.data<int32_t>(), kv_seq},
                {}, messages, heads, 0);
}

const int2* cached_ranges(Stream& stream, Scratch& scratch, int64_t batch, int64_t seq,
                          int64_t past, int64_t step, int64_t window) {
  int2* ranges = scratch.take<int2>(batch * seq);
  launch(stream, "attention_cached", fill_ranges, (batch * seq + kThreads - 1) / kThreads, kThreads,
         0, ranges, static_cast<int>(batch * seq), static_cast<int>(seq), static_cast<int>(past),
         static_cast<int>(step), static_cast<int>(window));
  return ranges;
}

}  // namespace sextant::cuda
