#pragma once
#include <cstdint>
#include <vector>

#include "base/range.h"
#include "config/config.h"

namespace sextant {

// A rank's place in its context parallel group: a ring of Ulysses groups of neighbouring ranks,
// which exchange tokens for heads. A ring of 1 is Ulysses, groups of 1 are plain ring attention.
//
// A sequence is cut into 2 * ring chunks; group g has chunks g and 2 * ring - 1 - g, in this order,
// so that causal work is balanced (zigzag). A rank has an even part of them. AllGather cuts as a
// ring of all ranks, Ulysses into contiguous parts.
struct ContextPart {
  int degree = 1, rank = 0;
  int ulysses = 1;               // ranks per group
  bool uses_all_gather = false;  // ContextKind::AllGather

  int ring() const { return degree / ulysses; }
  int group() const { return rank / ulysses; }
  friend bool operator==(const ContextPart&, const ContextPart&) = default;
};

ContextPart context_part(const ParallelConfig& parallel, int rank);

// Tokens of a sequence on a group, or on a rank: in its order, at most two ranges.
std::vector<Range> tokens_of_group(const ContextPart& part, int group, int64_t seq);
std::vector<Range> tokens_of(const ContextPart& part, int64_t seq);

// Number of parts of the keys that a rank attends to one after the other: see Micro.
int64_t context_parts(const ContextPart& part);
// Copies of each key-value head that give every rank of a Ulysses group whole heads.
int64_t kv_copies(const ContextPart& part, int64_t kv_heads);

// Causal (query, key) pairs that a rank computes per head, one number per step of the ring. For all
// heads in groups of one rank, else for the rank's own heads.
std::vector<int64_t> causal_pairs(const ContextPart& part, int64_t seq);

}  // namespace sextant
