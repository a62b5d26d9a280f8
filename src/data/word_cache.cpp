#include "data/word_cache.h"

#include "data/checksum.h"

namespace sextant {
namespace {

constexpr size_t kSlots = 1 << 15;  // a power of two
constexpr size_t kLongest = 64;     // maximum bytes of a cached word

}  // namespace

WordCache::WordCache() : slots_(kSlots) {}

size_t WordCache::slot_of(std::string_view word, uint64_t hash) const {
  size_t at = hash & (kSlots - 1);
  while (slots_[at].word_size != 0) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash &&
        std::string_view(words_).substr(slot.word_at, slot.word_size) == word) {
      break;
    }
    at = (at + 1) & (kSlots - 1);
  }
  return at;
}

std::optional<std::span<const int32_t>> WordCache::find(std::string_view word) const {
  if (word.empty() || word.size() > kLongest) return std::nullopt;
  const Slot& slot = slots_[slot_of(word, checksum(word))];
  if (slot.word_size == 0) return std::nullopt;
  return std::span(ids_).subspan(slot.ids_at, slot.ids_size);
}

void WordCache::insert(std::string_view word, std::span<const int32_t> ids) {
  if (word.empty() || word.size() > kLongest) return;
  if (used_ > kSlots / 2) {
    slots_.assign(kSlots, Slot{});
    words_.clear();
    ids_.clear();
    used_ = 0;
  }
  const uint64_t hash = checksum(word);
  Slot& slot = slots_[slot_of(word, hash)];
  if (slot.word_size != 0) return;
  slot = {hash, static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(ids_.size()),
          static_cast<uint32_t>(word.size()), static_cast<uint32_t>(ids.size())};
  words_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++used_;
}

}  // namespace sextant
