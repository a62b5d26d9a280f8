#include "parallel/context_ranks.h"

#include <gtest/gtest.h>

#include "comm/run_ranks.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

constexpr int64_t kBatch = 2, kSeq = 24, kWidth = 12;

// An element of the whole, [batch, seq, width], that says where it is from.
float element(int64_t row, int64_t token, int64_t column) {
  return static_cast<float>((row * kSeq + token) * kWidth + column);
}

// A rank of the given shape with its tokens of the whole: f(ranks, stream, batch, x).
template <class F>
void with_parts(int degree, int ulysses, bool gathers, F&& f) {
  run_ranks(degree, [&](Communicator& world) {
    Arena arena(Device{}, 64 << 20);
    Stream stream(arena, 1);
    const ContextPart part{degree, world.rank(), ulysses, gathers};
    const ContextRanks ranks(world, part, kSeq);
    std::vector<float> values;
    for (int64_t row = 0; row < kBatch; ++row)
      for (const Range& run : tokens_of(part, kSeq))
        for (int64_t token = run.begin; token < run.end; ++token)
          for (int64_t column = 0; column < kWidth; ++column)
            values.push_back(element(row, token, column));
    Tensor x = arena.allocate(Category::Activations, DType::F32, {kBatch * kSeq / degree, kWidth});
    copy_from_host<float>(stream, x, values);
    f(ranks, stream, x, values);
  });
}

std::vector<float> values_of(Stream& stream, const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  copy_to_host<float>(stream, values, tensor);
  return values;
}

TEST(ContextRanks, ExchangeTokensForColumnsAndBack) {
  for (const auto& [degree, ulysses] : {std::pair{2, 2}, {4, 4}, {4, 2}, {6, 3}})
    with_parts(
        degree, ulysses, false,
        [](const ContextRanks& ranks, Stream& stream, const Tensor& x,
           const std::vector<float>& values) {
          const ContextPart& part = ranks.part();
          const Tensor heads = ranks.to_heads(stream, x, kBatch);
          const int64_t width = kWidth / part.ulysses;
          std::vector<float> wanted;
          for (int64_t row = 0; row < kBatch; ++row)
            for (const Range& run : tokens_of_group(part, part.group(), kSeq))
              for (int64_t token = run.begin; token < run.end; ++token)
                for (int64_t column = 0; column < width; ++column)
                  wanted.push_back(element(row, token, part.rank % part.ulysses * width + column));
          EXPECT_EQ(values_of(stream, heads), wanted);
          EXPECT_EQ(values_of(stream, ranks.to_tokens(stream, heads, kBatch)), values);
        });
}

TEST(ContextRanks, GatherInTheOrderOfTheSequenceAndSumBack) {
  for (const int degree : {2, 3, 4})
    with_parts(degree, 1, true,
               [&](const ContextRanks& ranks, Stream& stream, const Tensor& x,
                   const std::vector<float>& values) {
                 const Tensor whole = ranks.all_gather(stream, x, kBatch);
                 std::vector<float> wanted;
                 for (int64_t i = 0; i < kBatch * kSeq * kWidth; ++i)
                   wanted.push_back(static_cast<float>(i));
                 EXPECT_EQ(values_of(stream, whole), wanted);
                 std::vector<float> sum = values;
                 for (float& value : sum) value *= static_cast<float>(degree);
                 EXPECT_EQ(values_of(stream, ranks.reduce_scatter(stream, whole, kBatch)), sum);
               });
}

TEST(ContextRanks, NeighboursPassOnAroundTheRing) {
  with_parts(6, 2, false,
             [](const ContextRanks& ranks, Stream& stream, const Tensor& x,
                const std::vector<float>& values) {
               Tensor now = x;
               for (int hop = 0; hop < ranks.part().ring(); ++hop) {
                 Tensor next =
                     stream.arena().allocate(Category::Activations, DType::F32, x.shape());
                 Pending sending = ranks.ring().send(stream, now, When::Later);
                 ranks.ring().receive(stream, next, When::Now);
                 sending.wait();
                 EXPECT_EQ(values_of(stream, next) == values, hop + 1 == ranks.part().ring());
                 now = next;
               }
             });
}

}  // namespace
}  // namespace sextant
