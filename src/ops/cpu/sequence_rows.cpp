#include "ops/sequence_rows.h"

#include <algorithm>
#include <cstring>

namespace sextant::cpu {
namespace {

constexpr int64_t kBytes = 65536;  // of one piece of work

// f(place in the whole, place in the parts, bytes) for runs of tokens that lie together in both.
template <class F>
void for_runs(Stream& stream, const Tensor& whole, const Tensor& parts, int64_t batch,
              const TokenChunks& chunks, F&& f) {
  const int64_t length = whole.dim(0) / batch;
  if (whole.elements() == 0 || parts.elements() == 0) return;
  const int64_t token = whole.bytes() / whole.dim(0);  // bytes
  const int64_t ranks = parts.shape().dims() > whole.shape().dims() ? parts.dim(0) : 1;
  const int64_t seq = parts.bytes() / (ranks * batch * token);
  for (const TokenChunk& c : chunks.list())
    stream.team().for_pieces(
        batch * c.count, std::max<int64_t>(1, kBytes / token),
        [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end;) {
            const int64_t row = i / c.count, offset = i % c.count, from = c.in_parts + offset;
            const int64_t run = std::min({end - i, c.count - offset, seq - from % seq});
            f((row * length + c.in_whole + offset) * token,
              ((from / seq * batch + row) * seq + from % seq) * token,
              static_cast<size_t>(run * token));
            i += run;
          }
        });
}

}  // namespace

void gather_chunks(Stream& stream, Tensor& whole, const Tensor& parts, int64_t batch,
                   const TokenChunks& chunks) {
  for_runs(stream, whole, parts, batch, chunks, [&](int64_t w, int64_t p, size_t bytes) {
    std::memcpy(whole.raw() + w, parts.raw() + p, bytes);
  });
}

void scatter_chunks(Stream& stream, Tensor& parts, const Tensor& whole, int64_t batch,
                    const TokenChunks& chunks) {
  for_runs(stream, whole, parts, batch, chunks, [&](int64_t w, int64_t p, size_t bytes) {
    std::memcpy(parts.raw() + p, whole.raw() + w, bytes);
  });
}

}  // namespace sextant::cpu
