#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Ids of earlier words, for one thread. Bounded: cleared when full.
class WordCache {
 public:
  WordCache();

  // The ids stored for `word`; valid until the next insert.
  std::optional<std::span<const int32_t>> find(std::string_view word) const;
  // Ignores words that are long or already stored.
  void insert(std::string_view word, std::span<const int32_t> ids);

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t word_at = 0, ids_at = 0;
    uint32_t word_size = 0, ids_size = 0;  // word_size 0: free
  };
  size_t slot_of(std::string_view word, uint64_t hash) const;  // slot of the word, or a free one

  std::vector<Slot> slots_;
  std::string words_;
  std::vector<int32_t> ids_;
  size_t used_ = 0;
};

}  // namespace sextant
