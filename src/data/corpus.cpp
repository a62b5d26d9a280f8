#include "data/corpus.h"

#include "base/error.h"
#include "data/corpus_draw.h"

namespace sextant {
namespace {

struct Kind {
  std::string (*write)(Draw&);
  int weight;
};

// Stories and letters have long-range structure, so they make up most of the bytes.
constexpr Kind kKinds[] = {{write_story, 10},   {write_letter, 5}, {write_dialogue, 4},
                           {write_entry, 4},    {write_rhymes, 3}, {write_sums, 4},
                           {write_counting, 2}, {write_walk, 2},   {write_words, 2},
                           {write_recipe, 3},   {write_log, 3},    {write_table, 3}};

std::string write_document(uint64_t seed, size_t index) {
  Draw draw(seed, concat("corpus/", index));
  int total = 0;
  for (const Kind& kind : kKinds) total += kind.weight;
  int choice = draw.below(total);
  for (const Kind& kind : kKinds) {
    if (choice < kind.weight) return kind.write(draw);
    choice -= kind.weight;
  }
  SXT_FAIL(Internal, "no kind of document for a choice below the sum of weights");
}

}  // namespace

std::vector<std::string> builtin_documents(uint64_t seed, int64_t min_bytes) {
  std::vector<std::string> documents;
  for (int64_t bytes = 0; bytes < min_bytes;) {
    documents.push_back(write_document(seed, documents.size()));
    bytes += static_cast<int64_t>(documents.back().size());
  }
  return documents;
}

}  // namespace sextant
