#include "ops/sequence_rows.h"

#include "ops/cuda/copy_cells.h"

namespace sextant::cuda {
namespace {

// A row is a token of a chunk: token `row % count` of it in row `row / count` of the batch.
struct Gathered {
  TokenChunk chunk;
  int64_t batch, length, seq;  // tokens of a row of the whole, and of a part
  int64_t token;               // units
  __device__ Place operator()(int64_t row, int64_t column) const {
    const int64_t in_batch = row / chunk.count, offset = row % chunk.count;
    const int64_t from = chunk.in_parts + offset;
    return {(in_batch * length + chunk.in_whole + offset) * token + column,
            ((from / seq * batch + in_batch) * seq + from % seq) * token + column};
  }
};
struct Scattered {
  Gathered gathered;
  __device__ Place operator()(int64_t row, int64_t column) const {
    const Place place = gathered(row, column);
    return {place.from, place.to};
  }
};

// f(places, bytes of a unit) for every chunk.
template <class F>
void for_chunks(const Tensor& whole, const Tensor& parts, int64_t batch, const TokenChunks& chunks,
                F&& f) {
  if (whole.elements() == 0 || parts.elements() == 0) return;
  const int64_t token = whole.bytes() / whole.dim(0);  // bytes
  const int64_t ranks = parts.shape().dims() > whole.shape().dims() ? parts.dim(0) : 1;
  const int64_t seq = parts.bytes() / (ranks * batch * token);
  const int64_t unit = unit_of({token}, {whole.raw(), parts.raw()});
  for (const TokenChunk& chunk : chunks.list())
    if (chunk.count > 0) f(Gathered{chunk, batch, whole.dim(0) / batch, seq, token / unit}, unit);
}

}  // namespace

void gather_chunks(Stream& stream, Tensor& whole, const Tensor& parts, int64_t batch,
                   const TokenChunks& chunks) {
  for_chunks(whole, parts, batch, chunks, [&](const Gathered& places, int64_t unit) {
    copy_cells(stream, "gather_chunks", whole.raw(), parts.raw(), unit, batch * places.chunk.count,
               places.token, places);
  });
}

void scatter_chunks(Stream& stream, Tensor& parts, const Tensor& whole, int64_t batch,
                    const TokenChunks& chunks) {
  for_chunks(whole, parts, batch, chunks, [&](const Gathered& places, int64_t unit) {
    copy_cells(stream, "scatter_chunks", parts.raw(), whole.raw(), unit, batch * places.chunk.count,
               places.token, Scattered{places});
  });
}

}  // namespace sextant::cuda
