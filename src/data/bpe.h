#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/word_cache.h"

namespace sextant {

// Pair of ids -> (rank, merged id). Open addressing, since every pair of every word is looked up.
class MergeTable {
 public:
  struct Merge {
    int32_t rank = -1;  // -1: no merge
    int32_t id = -1;
  };
  explicit MergeTable(size_t merges);
  void set(int32_t left, int32_t right, Merge merge);  // replaces an earlier one
  Merge find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t key;
    Merge merge;
  };
  size_t slot_of(uint64_t key) const;
  std::vector<Slot> slots_;
};

enum class WholeWords { Merge, Lookup };  // Lookup: a word that is a token is not merged
enum class UnknownRuns { Each, Fused };
enum class Alphabet { Bytes, Characters };    // what a word is made of before it is merged
enum class Fallback { Unknown, ByteTokens };  // of an unknown character: its bytes as <0x41>

// Byte-pair encoding of one word at a time. Immutable, shared by threads.
class BpeModel {
 public:
  struct Unknown {
    int32_t id = -1;  // for a byte that the vocabulary lacks; -1: such bytes are dropped
    UnknownRuns runs = UnknownRuns::Each;
  };
  struct Symbols {
    Alphabet alphabet = Alphabet::Bytes;
    Fallback fallback = Fallback::Unknown;
  };
  // `ids`: text of a token -> id; of bytes all tokens that are made of them.
  BpeModel(std::unordered_map<std::string, int32_t> ids, MergeTable merges, WholeWords whole_words,
           Unknown unknown, Symbols symbols);

  // Buffers of one thread.
  struct Scratch {
    struct Symbol {
      int32_t id, prev, next;  // indices in the word, -1 at its ends
      bool is_gone;
    };
    struct Candidate {
      int32_t rank, place, id;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    std::vector<int32_t> ids;
    WordCache cache;
  };
  // Appends the ids of a word. O(n log n) in its bytes.
  void encode(std::vector<int32_t>& out, std::string_view word, Scratch& scratch) const;

 private:
  void split(std::string_view word, Scratch& scratch) const;
  void split_characters(std::string_view word, Scratch& scratch) const;
  void merge(Scratch& scratch) const;

  std::unordered_map<std::string, int32_t> ids_;
  std::array<int32_t, 256> byte_ids_{};  // of <0x41> with an alphabet of characters; -1: none
  MergeTable merges_;
  WholeWords whole_words_;
  Unknown unknown_;
  Symbols symbols_;
};

}  // namespace sextant
