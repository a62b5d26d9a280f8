#include <gtest/gtest.h>

#include <numeric>

#include "base/storage.h"
#include "bench/attention_pictures.h"
#include "bench/matrix_pictures.h"
#include "blueprint/context_part.h"
#include "support/built.h"
#include "support/same_picture.h"

namespace sextant {
namespace {

void expect_in_documents(const std::vector<Picture>& pictures, const std::string& directory) {
  for (const Picture& picture : pictures)
    expect_same_picture(source_dir() + "/docs/" + directory + "/" + picture.name + ".svg",
                        picture.svg);
}

// sextant bench gemm --pictures docs/tensor
TEST(MatrixPictures, InTheDocumentsAreThoseThatTheProgramDraws) {
  expect_in_documents(draw_matrices(), "tensor");
}

TEST(MatrixPictures, ShowTheShapesOfTheParts) {
  const std::string svg = draw_matrices().front().svg;
  for (const char* part :
       {"A matrix of 4096 × 4096 on 2 ranks: 16.0 MiB of 32.0 MiB", "4096 × 2048 each, 16.0 MiB",
        "2048 × 4096 each, 16.0 MiB", ">batch × 4096<", ">batch × 2048 each<"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
}

// sextant bench attention --pictures docs/context
TEST(AttentionPictures, InTheDocumentsAreThoseThatTheProgramDraws) {
  expect_in_documents(draw_attention(), "context");
}

TEST(AttentionPictures, CountThePairsOfEachRank) {
  using Pairs = std::vector<int64_t>;
  EXPECT_EQ(pairs_of_ranks(SequenceCut::Contiguous, 4, 16), (Pairs{10, 26, 42, 58}));
  EXPECT_EQ(pairs_of_ranks(SequenceCut::Zigzag, 4, 16), (Pairs{34, 34, 34, 34}));
  for (const int ranks : {1, 2, 3, 8})
    for (const SequenceCut cut : {SequenceCut::Contiguous, SequenceCut::Zigzag}) {
      const Pairs pairs = pairs_of_ranks(cut, ranks, 48);
      EXPECT_EQ(std::accumulate(pairs.begin(), pairs.end(), int64_t{0}), 48 * 49 / 2);
    }
}

// Counted one by one, the pairs equal those that the ring computes per step.
TEST(AttentionPictures, AgreeWithWhatTheRingCounts) {
  for (const int ranks : {2, 4, 8}) {
    const std::vector<int64_t> pairs = pairs_of_ranks(SequenceCut::Zigzag, ranks, 64);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<int64_t> steps = causal_pairs(ContextPart{ranks, rank}, 64);
      EXPECT_EQ(std::accumulate(steps.begin(), steps.end(), int64_t{0}),
                pairs[static_cast<size_t>(rank)]);
    }
  }
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(causal_pairs(ContextPart{4, rank}, 16), (std::vector<int64_t>{10, 8, 8, 8}));
}

}  // namespace
}  // namespace sextant
