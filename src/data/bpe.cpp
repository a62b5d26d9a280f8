// Merges come from a heap over a linked list of symbols, lowest rank first, leftmost among equals.
// A stale heap entry is used if its place still merges to the same id: exactly the test of the
// reference, so that the ids agree.
#include "data/bpe.h"

#include <algorithm>
#include <bit>

#include "data/byte_alphabet.h"

namespace sextant {
namespace {

constexpr uint64_t kFree = ~uint64_t{0};

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

bool comes_later(const BpeModel::Scratch::Candidate& a, const BpeModel::Scratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
}

// 65 -> "<0x41>".
std::string byte_token(size_t byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
}

void push(BpeModel::Scratch& scratch, int32_t id) {
  const auto place = static_cast<int32_t>(scratch.symbols.size());
  scratch.symbols.push_back({id, place - 1, place + 1, false});
}

}  // namespace

MergeTable::MergeTable(size_t merges)
    : slots_(std::bit_ceil(2 * merges + 2), Slot{kFree, Merge{}}) {}

size_t MergeTable::slot_of(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  uint64_t hash = key * 0x9E3779B97F4A7C15ULL;
  hash ^= hash >> 32;
  size_t at = hash & mask;
  while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & mask;
  return at;
}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = pair_key(left, right);
  slots_[slot_of(key)] = {key, merge};
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  return slots_[slot_of(pair_key(left, right))].merge;
}

BpeModel::BpeModel(std::unordered_map<std::string, int32_t> ids, MergeTable merges,
                   WholeWords whole_words, Unknown unknown, Symbols symbols)
    : ids_(std::move(ids)),
      merges_(std::move(merges)),
      whole_words_(whole_words),
      unknown_(unknown),
      symbols_(symbols) {
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const auto found =
        ids_.find(symbols.alphabet == Alphabet::Bytes ? std::string(1, static_cast<char>(byte))
                                                      : byte_token(byte));
    byte_ids_[byte] = found == ids_.end() ? -1 : found->second;
  }
}

void BpeModel::split(std::string_view word, Scratch& scratch) const {
  scratch.symbols.clear();
  bool after_unknown = false;
  for (const char c : word) {
    int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    const bool is_unknown = id < 0;
    if (is_unknown) {
      if (unknown_.id < 0 || (after_unknown && unknown_.runs == UnknownRuns::Fused)) continue;
      id = unknown_.id;
    }
    after_unknown = is_unknown;
    push(scratch, id);
  }
  if (!scratch.symbols.empty()) scratch.symbols.back().next = -1;
}

// As the reference does it: an unknown character waits for the next known one, and byte tokens in
// between come before it.
void BpeModel::split_characters(std::string_view word, Scratch& scratch) const {
  scratch.symbols.clear();
  bool is_waiting = false;
  for (size_t at = 0; at < word.size();) {
    const std::string_view character = word.substr(at, utf8_length(word[at]));
    at += character.size();
    const auto found = ids_.find(std::string(character));
    if (found != ids_.end()) {
      if (is_waiting) push(scratch, unknown_.id);
      is_waiting = false;
      push(scratch, found->second);
      continue;
    }
    const bool has_bytes =
        symbols_.fallback == Fallback::ByteTokens && std::ranges::all_of(character, [&](char c) {
          return byte_ids_[static_cast<unsigned char>(c)] >= 0;
        });
    if (has_bytes) {
      for (const char c : character) push(scratch, byte_ids_[static_cast<unsigned char>(c)]);
    } else if (unknown_.id >= 0) {
      if (is_waiting && unknown_.runs == UnknownRuns::Each) push(scratch, unknown_.id);
      is_waiting = true;
    }
  }
  if (is_waiting) push(scratch, unknown_.id);
  if (!scratch.symbols.empty()) scratch.symbols.back().next = -1;
}

void BpeModel::merge(Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  std::vector<Scratch::Candidate>& heap = scratch.heap;
  heap.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    const MergeTable::Merge found = merges_.find(symbols[i].id, symbols[i + 1].id);
    if (found.rank >= 0) heap.push_back({found.rank, static_cast<int32_t>(i), found.id});
  }
  std::make_heap(heap.begin(), heap.end(), comes_later);
  const auto offer = [&](int32_t place) {
    const Scratch::Symbol& left = symbols[static_cast<size_t>(place)];
    const MergeTable::Merge found =
        merges_.find(left.id, symbols[static_cast<size_t>(left.next)].id);
    if (found.rank < 0) return;
    heap.push_back({found.rank, place, found.id});
    std::push_heap(heap.begin(), heap.end(), comes_later);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const Scratch::Candidate top = heap.back();
    heap.pop_back();
    Scratch::Symbol& left = symbols[static_cast<size_t>(top.place)];
    if (left.is_gone || left.next < 0) continue;
    Scratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    const MergeTable::Merge now = merges_.find(left.id, right.id);
    if (now.rank < 0 || now.id != top.id) continue;
    left.id = top.id;
    left.next = right.next;
    right.is_gone = true;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].prev = top.place;
    if (left.prev >= 0) offer(left.prev);
    if (left.next >= 0) offer(top.place);
  }
}

void BpeModel::encode(std::vector<int32_t>& out, std::string_view word, Scratch& scratch) const {
  if (const auto known = scratch.cache.find(word)) {
    out.insert(out.end(), known->begin(), known->end());
    return;
  }
  scratch.ids.clear();
  const auto whole = whole_words_ == WholeWords::Lookup ? ids_.find(std::string(word)) : ids_.end();
  if (whole != ids_.end()) {
    scratch.ids.push_back(whole->second);
  } else {
    symbols_.alphabet == Alphabet::Bytes ? split(word, scratch) : split_characters(word, scratch);
    merge(scratch);
    for (const Scratch::Symbol& symbol : scratch.symbols) {
      if (!symbol.is_gone) scratch.ids.push_back(symbol.id);
    }
  }
  scratch.cache.insert(word, scratch.ids);
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
}

}  // namespace sextant
