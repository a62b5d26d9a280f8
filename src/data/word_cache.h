#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// The ids of words met before, for one thread. Bounded: when full it forgets everything.
class WordCache {
 public:
  WordCache();

  // The ids stored for `word`; valid until the next insert.
  std::optional<std::span<const int32_t>> find(std::string_view word) const;
  // A word that is long, or stored already, is ignored.
  void insert(std::string_view word, std::span<const int32_t> ids);

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t word_at = 0, ids_at = 0;
    uint32_t word_size = 0, ids_size = 0;  // word_size 0: free
  };
  size_t slot_of(std::string_view word, uint64_t hash) const;  // the word's, or a free one

  std::vector<Slot> slots_;
  std::string words_;
  std::vector<int32_t> ids_;
  size_t used_ = 0;
};

}  // namespace sextant
