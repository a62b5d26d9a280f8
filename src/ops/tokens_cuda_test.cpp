#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "support/cuda_cases.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

using T = std::span<Tensor>;

class TokensCuda : public CudaTest {};

TEST_F(TokensCuda, EmbeddingIsThatOfTheCpu) {
  for (const int64_t hidden : {1, 3, 65, 768})
    for (const TableRows& part : {TableRows{}, TableRows{10, 90}}) {
      const int64_t rows = 100, vocab = 50, all = part.whole > 0 ? part.whole : vocab;
      const CudaTensor ids = whole({rows}, some_below(rows, all));
      const std::string size = " of " + std::to_string(hidden) + " columns";
      expect_like_cpu(
          {"embedding" + size,
           {out({rows, hidden}), in({vocab, hidden}), ids},
           [=](Stream& s, T t) { embedding(s, t[0], t[1], t[2], Write::Replace, part); }});
      expect_like_cpu({"embedding added" + size,
                       {changed({rows, hidden}), in({vocab, hidden}), ids},
                       [=](Stream& s, T t) { embedding(s, t[0], t[1], t[2], Write::Add, part); }});
      for (const Write write : {Write::Replace, Write::Add})
        expect_like_cpu(
            {"embedding_backward" + size,
             {gradient({vocab, hidden}, write == Write::Add ? Use::InOut : Use::Out),
              in({rows, hidden}), ids},
             [=](Stream& s, T t) { embedding_backward(s, t[0], t[1], t[2], write, part); }});
    }
}

// Long and short runs of one id, over a vocabulary of several radix digits.
TEST_F(TokensCuda, EmbeddingBackwardAddsManyRowsOfOneId) {
  const int64_t rows = 5000, vocab = 50257, hidden = 24;
  std::vector<int32_t> ids = some_below(rows, vocab);
  for (size_t i = 0; i < ids.size(); i += 2) ids[i] = 198;
  for (size_t i = 1; i < 40; i += 2) ids[i] = static_cast<int32_t>(vocab) - 1;
  CudaCase test{"embedding_backward of frequent ids",
                {gradient({vocab, hidden}, Use::Out), in({rows, hidden}), whole({rows}, ids)},
                [](Stream& s, T t) { embedding_backward(s, t[0], t[1], t[2], Write::Replace); }};
  test.noise = 1e-5;
  expect_like_cpu(test);
}

TEST_F(TokensCuda, EmbeddingReportsTheFirstBadId) {
  Workbench bench(1, DeviceKind::Cuda);
  const Tensor table = bench.random<float>({5, 16}, "table");
  const Tensor ids = bench.make<int32_t>({4}, {4, 7, -1, 0});
  Tensor y = bench.random<float>({4, 16}, "y"), dtable = bench.random<float>({5, 16}, "dtable");
  embedding(bench.stream(), y, table, ids, Write::Replace);
  EXPECT_ERROR(bench.stream().check_data(), Data,
               "embedding: token id 7 at position 1 is outside the vocabulary of 5");
  const std::vector<float> rows = bench.read<float>(y);
  EXPECT_EQ(std::vector<float>(rows.begin() + 16, rows.begin() + 48), std::vector<float>(32, 0.0F));
  embedding_backward(bench.stream(), dtable, y, ids, Write::Replace);
  EXPECT_ERROR(bench.stream().check_data(), Data, "embedding_backward: token id 7 at position 1");
}

// Logits of the whole vocabulary, in one chunk or in several that begin at multiples of 1024.
TEST_F(TokensCuda, CrossEntropyIsThatOfTheCpu) {
  for (const int64_t vocab : {1, 3, 1000, 3000, 50257}) {
    const int64_t tokens = 6, width = vocab + 7;
    std::vector<int32_t> targets = some_below(tokens, vocab);
    targets[2] = -1;
    for (const double z_loss : {0.0, 0.01}) {
      expect_like_cpu(
          {"cross_entropy over " + std::to_string(vocab),
           {statistics({tokens, 3}, Use::Out), statistics({tokens}, Use::Out),
            statistics({tokens}, Use::Out), in({tokens, width}, 3), whole({tokens}, targets)},
           [=](Stream& s, T t) {
             cross_entropy_begin(s, t[0]);
             cross_entropy_chunk(s, t[0], t[3], t[4], 0, vocab);
             cross_entropy_end(s, t[1], t[2], t[0], t[4], z_loss);
           }});
      const CudaTensor scale{Role::Double, {1}, Use::In, 0, 0.125};
      expect_like_cpu({"cross_entropy_backward over " + std::to_string(vocab),
                       {changed({tokens, width}), statistics({tokens}, Use::In, 0.1, 3),
                        whole({tokens}, targets), scale},
                       [=](Stream& s, T t) {
                         cross_entropy_backward(s, t[0], t[1], t[2], 0, vocab, t[3], z_loss);
                       }});
    }
  }
}

// Rows of one block, of clusters, with and without padding, and such as do not fit a cluster or lie
// off an aligned address.
TEST_F(TokensCuda, CrossEntropyOfWholeLogitsIsThatOfTheCpu) {
  for (const int64_t width : {8, 1000, 1003, 40000, 50304, 128256, 400000}) {
    const int64_t tokens = 6, vocab = width == 128256 ? width : width - 5;
    std::vector<int32_t> targets = some_below(tokens, vocab);
    targets[0] = static_cast<int32_t>(vocab) - 1;
    targets[2] = -1;
    const CudaTensor scale{Role::Double, {1}, Use::In, 0, 0.125};
    for (const double z_loss : {0.0, 0.01})
      expect_like_cpu({"cross_entropy of " + std::to_string(width),
                       {statistics({tokens}, Use::Out),
                        statistics({tokens}, Use::Out),
                        statistics({tokens, 3}, Use::Out),
                        {Role::Compute, {tokens, width}, Use::InOut, 3},
                        whole({tokens}, targets),
                        scale},
                       [=](Stream& s, T t) {
                         cross_entropy(s, t[0], t[1], t[2], t[3], t[4], vocab, t[5], z_loss);
                       }});
  }
}

TEST_F(TokensCuda, CrossEntropyOfLaterColumnsIsThatOfTheCpu) {
  const int64_t tokens = 5, width = 520, vocab = 2000;
  for (const int64_t first : {700, 1024, 1800, 3000}) {
    const CudaTensor targets = whole({tokens}, {700, 1030, 1999, 0, -1});
    const CudaTensor scale{Role::Double, {1}, Use::In, 0, 2};
    expect_like_cpu(
        {"cross_entropy_chunk from " + std::to_string(first),
         {statistics({tokens, 3}, Use::InOut, 0.1, 2), in({tokens, width}, 3), targets},
         [=](Stream& s, T t) { cross_entropy_chunk(s, t[0], t[1], t[2], first, vocab); }});
    expect_like_cpu(
        {"cross_entropy_backward from " + std::to_string(first),
         {changed({tokens, width}), statistics({tokens}, Use::In, 0.1, 3), targets, scale},
         [=](Stream& s, T t) {
           cross_entropy_backward(s, t[0], t[1], t[2], first, vocab, t[3], 0);
         }});
  }
  expect_like_cpu({"cross_entropy_join",
                   {statistics({300, 3}, Use::Out), statistics({4, 300, 3})},
                   [](Stream& s, T t) { cross_entropy_join(s, t[0], t[1]); }});
}

TEST_F(TokensCuda, ChunksGiveTheBitsOfOneChunk) {
  const int64_t tokens = 3, vocab = 5000;
  Workbench bench(1, DeviceKind::Cuda);
  const std::vector<float> logits =
      bench.read<float>(bench.random<float>({tokens, vocab}, "logits", 4));
  const Tensor targets = bench.make<int32_t>({tokens}, {0, 1024, 4999});
  const auto running_of = [&](int64_t width) {
    Tensor running = bench.random<float>({tokens, 3}, "running");
    cross_entropy_begin(bench.stream(), running);
    for (int64_t first = 0; first < vocab; first += width) {
      const int64_t count = std::min(width, vocab - first);
      std::vector<float> part;
      for (int64_t token = 0; token < tokens; ++token)
        part.insert(part.end(), logits.begin() + token * vocab + first,
                    logits.begin() + token * vocab + first + count);
      cross_entropy_chunk(bench.stream(), running, bench.make<float>({tokens, count}, part),
                          targets, first, vocab);
    }
    return bench.read<float>(running);
  };
  EXPECT_EQ(running_of(1024), running_of(vocab));
  EXPECT_EQ(running_of(3072), running_of(vocab));
}

TEST_F(TokensCuda, LogitsThatAreNoNumbersComeOutAsOnTheCpu) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> logits = {-kInfinity, -kInfinity, -kInfinity, 1,    -kInfinity, 2,
                                     0,          kNan,       1,          kNan, kNan,       kNan};
  std::vector<float> results[2];
  for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
    Workbench bench(1, device);
    Tensor running = bench.empty<float>({4, 3}), loss = bench.empty<float>({4});
    Tensor lse = bench.empty<float>({4});
    const Tensor targets = bench.make<int32_t>({4}, {0, 2, 0, 1});
    cross_entropy_begin(bench.stream(), running);
    cross_entropy_chunk(bench.stream(), running, bench.make<float>({4, 3}, logits), targets, 0, 3);
    cross_entropy_end(bench.stream(), loss, lse, running, targets);
    results[device == DeviceKind::Cuda] = bench.read<float>(lse);
  }
  for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
    Workbench bench(1, device);
    std::vector<float> rows;  // of four columns, of which the last is padding
    for (size_t i = 0; i < logits.size(); ++i) {
      rows.push_back(logits[i]);
      if (i % 3 == 2) rows.push_back(0);
    }
    Tensor x = bench.make<float>({4, 4}, rows), running = bench.empty<float>({4, 3});
    Tensor loss = bench.empty<float>({4}), lse = bench.empty<float>({4});
    const Tensor targets = bench.make<int32_t>({4}, {0, 2, 0, 1});
    cross_entropy(bench.stream(), loss, lse, running, x, targets, 3, bench.make<double>({1}, {1}));
    const std::vector<float> more = bench.read<float>(lse);
    std::vector<float>& all = results[device == DeviceKind::Cuda];
    all.insert(all.end(), more.begin(), more.end());
  }
  for (size_t i = 0; i < results[0].size(); ++i)
    EXPECT_TRUE(results[0][i] == results[1][i] ||
                (std::isnan(results[0][i]) && std::isnan(results[1][i])) ||
                std::abs(results[0][i] - results[1][i]) < 1e-6F)
        << i << ": " << results[1][i] << " instead of " << results[0][i];
}

TEST_F(TokensCuda, CrossEntropyReportsTheFirstBadTarget) {
  Workbench bench(1, DeviceKind::Cuda);
  Tensor logits = bench.random<float>({4, 8}, "logits"), running = bench.empty<float>({4, 3});
  Tensor loss = bench.empty<float>({4}), lse = bench.empty<float>({4});
  const Tensor targets = bench.make<int32_t>({4}, {-1, 3, 9, -7});
  cross_entropy_begin(bench.stream(), running);
  cross_entropy_chunk(bench.stream(), running, logits, targets, 0, 8);
  cross_entropy_end(bench.stream(), loss, lse, running, targets);
  EXPECT_ERROR(bench.stream().check_data(), Data,
               "cross_entropy_chunk: target 9 at position 2 is outside the vocabulary of 8");
  const std::vector<float> losses = bench.read<float>(loss);
  EXPECT_EQ(losses[0], 0);
  EXPECT_GT(losses[1], 0);
  EXPECT_EQ(losses[2], 0);
  EXPECT_EQ(losses[3], 0);
  const Tensor scale = bench.make<double>({1}, {1});
  cross_entropy_backward(bench.stream(), logits, lse, targets, 0, 8, scale);
  EXPECT_ERROR(bench.stream().check_data(), Data, "cross_entropy_backward: target 9 at position 2");
  cross_entropy(bench.stream(), loss, lse, running, logits, targets, 8, scale);
  EXPECT_ERROR(bench.stream().check_data(), Data, "cross_entropy: target 9 at position 2");
}

}  // namespace
}  // namespace sextant
