#include "ops/sequence_rows.h"

#include <algorithm>
#include <vector>

#include "ops/check.h"

namespace sextant {
namespace {

bool overlap(int64_t a, int64_t b, int64_t a_count, int64_t b_count) {
  return a < b + b_count && b < a + a_count;
}

// Lengths of the whole and of one part, in tokens.
struct Lengths {
  int64_t whole = 0, part = 0, ranks = 1;
};

Lengths check_shapes(std::string_view op, const Tensor& whole, const Tensor& parts, int64_t batch) {
  SXT_CHECK(whole && parts && whole.dtype() == parts.dtype(), Usage, op, ": whole is ",
            name_of(whole.dtype()), " ", whole.shape(), " and parts ", name_of(parts.dtype()), " ",
            parts.shape(), ", must be of one type and not empty");
  const int dims = whole.shape().dims(), extra = parts.shape().dims() - dims;
  bool fits = batch > 0 && dims > 0 && (extra == 0 || extra == 1);
  fits = fits && whole.dim(0) % batch == 0 && parts.dim(extra) % batch == 0;
  for (int i = 1; fits && i < dims; ++i) fits = whole.dim(i) == parts.dim(i + extra);
  SXT_CHECK(fits, Usage, op, ": whole is ", whole.shape(), " and parts ", parts.shape(),
            " with batch=", batch, ", must be [batch * length, ...] and [ranks, batch * seq, ...]");
  return {whole.dim(0) / batch, parts.dim(extra) / batch, extra == 1 ? parts.dim(0) : 1};
}

void check_apart(const TokenChunk& c, const TokenChunk& d) {
  SXT_CHECK(!overlap(c.in_parts, d.in_parts, c.count, d.count) &&
                !overlap(c.in_whole, d.in_whole, c.count, d.count),
            Usage, "chunks at ", c.in_parts, " and ", d.in_parts, " of the parts, ", c.in_whole,
            " and ", d.in_whole, " of the whole, must not overlap");
}

// Few chunks are compared with each other, without an allocation; many are sorted.
void check_apart(std::span<const TokenChunk> chunks) {
  constexpr size_t kFew = 16;
  if (chunks.size() <= kFew) {
    for (const TokenChunk& c : chunks)
      for (const TokenChunk* d = chunks.data(); d != &c; ++d) check_apart(c, *d);
    return;
  }
  std::vector<TokenChunk> sorted(chunks.begin(), chunks.end());
  std::erase_if(sorted, [](const TokenChunk& c) { return c.count == 0; });
  for (int64_t TokenChunk::*where : {&TokenChunk::in_parts, &TokenChunk::in_whole}) {
    std::ranges::sort(sorted, {}, where);
    for (size_t i = 1; i < sorted.size(); ++i) check_apart(sorted[i], sorted[i - 1]);
  }
}

void check_chunks(std::string_view op, const Lengths& lengths, const TokenChunks& chunks) {
  const int64_t parts = lengths.ranks * lengths.part;
  if (chunks.parts_end() <= parts && chunks.whole_end() <= lengths.whole) return;
  for (const TokenChunk& c : chunks.list())
    SXT_CHECK(c.in_parts + c.count <= parts && c.in_whole + c.count <= lengths.whole, Usage, op,
              ": chunk of ", c.count, " tokens at ", c.in_parts, " of the parts and ", c.in_whole,
              " of the whole, must lie within ", parts, " and ", lengths.whole);
}

// The one chunk that is everything.
TokenChunk check_whole(std::string_view op, const Tensor& whole, const Tensor& parts,
                       int64_t batch) {
  const Lengths lengths = check_shapes(op, whole, parts, batch);
  SXT_CHECK(lengths.whole == lengths.ranks * lengths.part, Usage, op, ": ", lengths.ranks,
            " parts of ", lengths.part, " tokens, must be the ", lengths.whole, " of the whole");
  return {0, 0, lengths.whole};
}

// Bytes that the chunks move.
int64_t moved(const Tensor& whole, int64_t batch, const TokenChunks& chunks) {
  return chunks.tokens() == 0 ? 0 : batch * chunks.tokens() * (whole.bytes() / whole.dim(0));
}

Work work_of(const char* op, const Tensor& to, const Tensor& from, int64_t bytes) {
  return Work(op).writes_some(to, bytes).reads_some(from, bytes);
}

}  // namespace

SXT_BACKENDS(gather_chunks)
SXT_BACKENDS(scatter_chunks)

TokenChunks::TokenChunks(std::span<const TokenChunk> list) : list_(list) {
  for (const TokenChunk& c : list) {
    SXT_CHECK(c.count >= 0 && c.in_parts >= 0 && c.in_whole >= 0, Usage, "chunk of ", c.count,
              " tokens at ", c.in_parts, " of the parts and ", c.in_whole,
              " of the whole, must not be negative");
    tokens_ += c.count;
    parts_end_ = std::max(parts_end_, c.in_parts + c.count);
    whole_end_ = std::max(whole_end_, c.in_whole + c.count);
  }
  check_apart(list);
}

void join_sequence(Stream& stream, Tensor& whole, const Tensor& parts, int64_t batch) {
  const TokenChunk all = check_whole("join_sequence", whole, parts, batch);
  SXT_DISPATCH(stream, Work("join_sequence").writes(whole).reads(parts),
               gather_chunks(stream, whole, parts, batch, TokenChunks({&all, 1})));
}

void split_sequence(Stream& stream, Tensor& parts, const Tensor& whole, int64_t batch) {
  const TokenChunk all = check_whole("split_sequence", whole, parts, batch);
  SXT_DISPATCH(stream, Work("split_sequence").writes(parts).reads(whole),
               scatter_chunks(stream, parts, whole, batch, TokenChunks({&all, 1})));
}

void gather_chunks(Stream& stream, Tensor& whole, const Tensor& parts, int64_t batch,
                   const TokenChunks& chunks) {
  check_chunks("gather_chunks", check_shapes("gather_chunks", whole, parts, batch), chunks);
  SXT_DISPATCH(stream, work_of("gather_chunks", whole, parts, moved(whole, batch, chunks)),
               gather_chunks(stream, whole, parts, batch, chunks));
}

void scatter_chunks(Stream& stream, Tensor& parts, const Tensor& whole, int64_t batch,
                    const TokenChunks& chunks) {
  check_chunks("scatter_chunks", check_shapes("scatter_chunks", whole, parts, batch), chunks);
  SXT_DISPATCH(stream, work_of("scatter_chunks", parts, whole, moved(whole, batch, chunks)),
               scatter_chunks(stream, parts, whole, batch, chunks));
}

}  // namespace sextant
