#pragma once
#include <cstdint>
#include <vector>

#include "base/range.h"
#include "config/config.h"

namespace sextant {

// One rank of those that share every sequence. They are a ring of groups; within a group the ranks
// exchange heads for tokens, neighbours being in the same one. A ring of 1 is Ulysses, groups of 1
// are a plain ring.
//
// A sequence is cut into 2 * ring chunks, of which group g has chunk g and, behind it, chunk
// 2 * ring - 1 - g: so the causal work of all is equal (zigzag). A rank has its even part of those.
// AllGather cuts like a ring of all ranks, Ulysses into contiguous parts.
struct ContextPart {
  int degree = 1, rank = 0;
  int ulysses = 1;       // ranks of a group
  bool gathers = false;  // ContextKind::AllGather

  int ring() const { return degree / ulysses; }
  int group() const { return rank / ulysses; }
  friend bool operator==(const ContextPart&, const ContextPart&) = default;
};

ContextPart context_part(const ParallelConfig& parallel, int rank);

// Tokens of a sequence that a group, or a rank, has: in its order, at most two runs.
std::vector<Range> tokens_of_group(const ContextPart& part, int group, int64_t seq);
std::vector<Range> tokens_of(const ContextPart& part, int64_t seq);

// Tensors of ranges of keys that a rank attends to one after the other: see Micro.
int64_t context_parts(const ContextPart& part);
// How often each of a rank's key-value heads is there when every rank of a group gets whole ones.
int64_t kv_copies(const ContextPart& part, int64_t kv_heads);

// Pairs of a query and a key at or before it, that a rank multiplies for one head when keys come
// from one group after the other: one number for each of these steps. Of all heads where its group
// has one rank, else of its own heads.
std::vector<int64_t> causal_pairs(const ContextPart& part, int64_t seq);

}  // namespace sextant
