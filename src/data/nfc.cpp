#include "data/nfc.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "data/byte_alphabet.h"
#include "data/nfc_tables.h"

namespace sextant {
namespace {

// Hangul syllables are leading + vowel + optional trailing, computed arithmetically.
constexpr uint32_t kSyllable = 0xAC00, kLeading = 0x1100, kVowel = 0x1161, kTrailing = 0x11A7;
constexpr uint32_t kLeadings = 19, kVowels = 21, kTrailings = 28;
constexpr uint32_t kSyllables = kLeadings * kVowels * kTrailings;

struct Mark {
  uint32_t code;
  uint8_t combining;
};

struct Tables {
  std::unordered_map<uint32_t, Decomposition> decompositions;
  std::unordered_map<uint64_t, uint32_t> compositions;

  Tables() {
    for (const Decomposition& d : one_way_decompositions()) decompositions.emplace(d.whole, d);
    for (const Decomposition& d : composing_pairs()) {
      decompositions.emplace(d.whole, d);
      compositions.emplace(uint64_t{d.first} << 32 | d.second, d.whole);
    }
  }
};

const Tables& tables() {
  static const Tables all;
  return all;
}

uint8_t combining_class(uint32_t code) {
  const std::vector<CombiningClass>& table = combining_classes();
  const auto after =
      std::upper_bound(table.begin(), table.end(), code,
                       [](uint32_t c, const CombiningClass& entry) { return c < entry.first; });
  if (after == table.begin()) return 0;
  const CombiningClass& entry = *std::prev(after);
  return code <= entry.last ? entry.value : 0;
}

void decompose(std::vector<Mark>& out, uint32_t code) {
  if (code - kSyllable < kSyllables) {
    const uint32_t index = code - kSyllable;
    out.push_back({kLeading + index / (kVowels * kTrailings), 0});
    out.push_back({kVowel + index / kTrailings % kVowels, 0});
    if (index % kTrailings != 0) out.push_back({kTrailing + index % kTrailings, 0});
    return;
  }
  const auto found = tables().decompositions.find(code);
  if (found == tables().decompositions.end()) {
    out.push_back({code, combining_class(code)});
    return;
  }
  decompose(out, found->second.first);
  if (found->second.second != 0) decompose(out, found->second.second);
}

// Sorts the marks between two characters of class 0 by class; stable.
void reorder(std::vector<Mark>& marks) {
  auto begin = marks.begin();
  while (begin != marks.end()) {
    begin = std::find_if(begin, marks.end(), [](const Mark& m) { return m.combining != 0; });
    const auto end =
        std::find_if(begin, marks.end(), [](const Mark& m) { return m.combining == 0; });
    std::stable_sort(begin, end,
                     [](const Mark& a, const Mark& b) { return a.combining < b.combining; });
    begin = end;
  }
}

// The composition of two characters, or 0.
uint32_t composed(uint32_t first, uint32_t second) {
  if (first - kLeading < kLeadings && second - kVowel < kVowels)
    return kSyllable + ((first - kLeading) * kVowels + second - kVowel) * kTrailings;
  if (first - kSyllable < kSyllables && (first - kSyllable) % kTrailings == 0 &&
      second - kTrailing - 1 < kTrailings - 1)
    return first + second - kTrailing;
  const auto found = tables().compositions.find(uint64_t{first} << 32 | second);
  return found == tables().compositions.end() ? 0 : found->second;
}

// Each mark composes with the last character of class 0 unless an uncomposed mark of the same or a
// higher class, or an uncomposed character of class 0, is between them.
void compose(std::vector<Mark>& marks) {
  size_t kept = 0, starter = 0;
  bool has_starter = false;
  for (const Mark mark : marks) {
    const bool is_next = has_starter && kept == starter + 1;
    const bool is_blocked = !is_next && has_starter && marks[kept - 1].combining >= mark.combining;
    if (has_starter && !is_blocked) {
      if (const uint32_t whole = composed(marks[starter].code, mark.code); whole != 0) {
        marks[starter].code = whole;
        continue;
      }
    }
    if (mark.combining == 0) {
      starter = kept;
      has_starter = true;
    }
    marks[kept++] = mark;
  }
  marks.resize(kept);
}

}  // namespace

std::string to_nfc(std::string_view text) {
  // Text below U+0300 (lead byte 0xCC) is already in NFC.
  const bool is_plain = std::none_of(text.begin(), text.end(),
                                     [](char c) { return static_cast<unsigned char>(c) >= 0xCC; });
  if (is_plain) return std::string(text);
  std::vector<Mark> marks;
  marks.reserve(text.size());
  for (size_t at = 0; at < text.size(); at += utf8_length(text[at]))
    decompose(marks, utf8_at(text, at));
  reorder(marks);
  compose(marks);
  std::string out;
  out.reserve(text.size());
  for (const Mark& mark : marks) append_utf8(out, mark.code);
  return out;
}

}  // namespace sextant
