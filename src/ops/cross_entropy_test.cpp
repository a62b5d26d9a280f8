#include "ops/cross_entropy.h"

#include <limits>

#include "support/agree.h"
#include "support/expect_error.h"
#include "support/gradient_check.h"

namespace sextant {
namespace {

struct Loss {
  Tensor loss, lse, running;
};

// In chunks of `width` columns, each copied out of the whole.
template <class T>
Loss loss_in_chunks(Workbench& bench, const std::vector<T>& logits, const Tensor& targets,
                    int64_t columns, int64_t width, int64_t vocab) {
  const int64_t tokens = targets.dim(0);
  Tensor running = bench.empty<T>({tokens, 3});
  Loss out{bench.empty<T>({tokens}), bench.empty<T>({tokens}), running};
  cross_entropy_begin(bench.stream(), running);
  for (int64_t first = 0; first < columns; first += width) {
    const int64_t count = std::min(width, columns - first);
    std::vector<T> part;
    for (int64_t token = 0; token < tokens; ++token)
      part.insert(part.end(), logits.begin() + token * columns + first,
                  logits.begin() + token * columns + first + count);
    cross_entropy_chunk(bench.stream(), running, bench.make<T>({tokens, count}, part), targets,
                        first, vocab);
  }
  cross_entropy_end(bench.stream(), out.loss, out.lse, running, targets);
  return out;
}

// With its scale in device memory.
void backward(Workbench& bench, Tensor& logits, const Tensor& lse, const Tensor& targets,
              int64_t first_column, int64_t vocab, double scale, double z_loss = 0) {
  cross_entropy_backward(bench.stream(), logits, lse, targets, first_column, vocab,
                         bench.make<double>({1}, {scale}), z_loss);
}

TEST(CrossEntropy, HandComputedTokens) {
  Workbench bench;
  // exp of the logits are 1, 2, 5 (sum 8); the fourth column is padding, the second token is not
  // counted.
  const float l2 = std::log(2.0F), l5 = std::log(5.0F);
  const std::vector<float> logits = {0, l2, l5, 99, 3, 3, 3, 3};
  const Tensor targets = bench.make<int32_t>({2}, {1, -1});
  const Loss out = loss_in_chunks(bench, logits, targets, 4, 4, 3);
  expect_close(bench.read<float>(out.lse), std::vector<float>{3 * l2, 0}, 1e-7);
  expect_close(bench.read<float>(out.loss), std::vector<float>{2 * l2, 0}, 1e-7);
  Tensor gradient = bench.make<float>({2, 4}, logits);
  backward(bench, gradient, out.lse, targets, 0, 3, 8);
  expect_close(bench.read<float>(gradient), std::vector<float>{1, -6, 5, 0, 0, 0, 0, 0}, 3e-7);
}

TEST(CrossEntropy, GradientIsThatOfFiniteDifferences) {
  Workbench bench;
  const int64_t tokens = 4, columns = 11, vocab = 9;
  Tensor logits = bench.random<double>({tokens, columns}, "logits", 2);
  const Tensor targets = bench.make<int32_t>({tokens}, {0, 8, -1, 3});
  const double scale = 0.7;
  const auto loss = [&] {
    const Loss out =
        loss_in_chunks(bench, bench.read<double>(logits), targets, columns, columns, vocab);
    double sum = 0;
    for (const double value : bench.read<double>(out.loss)) sum += value;
    return sum * scale;
  };
  const Loss out =
      loss_in_chunks(bench, bench.read<double>(logits), targets, columns, columns, vocab);
  Tensor gradient = bench.make<double>({tokens, columns}, bench.read<double>(logits));
  backward(bench, gradient, out.lse, targets, 0, vocab, scale);
  expect_gradient(bench.stream(), logits, gradient, "logits", loss);
}

TEST(CrossEntropy, AlignedChunksGiveTheBitsOfTheWhole) {
  Workbench bench(2);
  const int64_t tokens = 7, columns = 5 * kVocabBlock + 64, vocab = 5 * kVocabBlock + 17;
  const std::vector<float> logits =
      bench.read<float>(bench.random<float>({tokens, columns}, "logits"));
  const Tensor targets = bench.make<int32_t>(
      {tokens}, {0, 1023, 1024, -1, static_cast<int32_t>(vocab) - 1, 3000, 5119});
  const Loss whole = loss_in_chunks(bench, logits, targets, columns, columns, vocab);
  for (const int64_t width : {kVocabBlock, 2 * kVocabBlock, 3 * kVocabBlock}) {
    const Loss parts = loss_in_chunks(bench, logits, targets, columns, width, vocab);
    EXPECT_EQ(bench.bytes(parts.running), bench.bytes(whole.running)) << width;
    EXPECT_EQ(bench.bytes(parts.lse), bench.bytes(whole.lse)) << width;
    EXPECT_EQ(bench.bytes(parts.loss), bench.bytes(whole.loss)) << width;
  }
}

TEST(CrossEntropy, ChunksOfTheGradientAreThoseOfTheWhole) {
  Workbench bench;
  const int64_t columns = 2 * kVocabBlock;
  const Tensor logits = bench.random<float>({1, columns}, "logits");
  const Tensor targets = bench.make<int32_t>({1}, {1500});
  const std::vector<float> values = bench.read<float>(logits);
  const Loss out = loss_in_chunks(bench, values, targets, columns, columns, columns);
  Tensor whole = bench.make<float>({1, columns}, values);
  backward(bench, whole, out.lse, targets, 0, columns, 0.25);
  std::vector<float> joined;
  for (int64_t first = 0; first < columns; first += kVocabBlock) {
    const auto begin = values.begin() + first;
    Tensor part = bench.make<float>({1, kVocabBlock}, {begin, begin + kVocabBlock});
    backward(bench, part, out.lse, targets, first, columns, 0.25);
    const std::vector<float> got = bench.read<float>(part);
    joined.insert(joined.end(), got.begin(), got.end());
  }
  EXPECT_EQ(bench.read<float>(whole), joined);
}

TEST(CrossEntropy, ManyColumnsAgreeWithAPlainSumInBothTypes) {
  Workbench bench(2);
  const int64_t tokens = 33, columns = 3001;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < tokens; ++i) ids.push_back(i * 90);
  const Tensor targets = bench.make<int32_t>({tokens}, ids);
  Tensor f32 = bench.random<float>({tokens, columns}, "logits", 4);
  Tensor f64 = bench.random<double>({tokens, columns}, "logits", 4);
  const Loss a = loss_in_chunks(bench, bench.read<float>(f32), targets, columns, columns, columns);
  const Loss b = loss_in_chunks(bench, bench.read<double>(f64), targets, columns, columns, columns);
  std::vector<double> wanted;
  const std::vector<double> values = bench.read<double>(f64);
  for (size_t token = 0; token < static_cast<size_t>(tokens); ++token) {
    double sum = 0;
    for (size_t i = 0; i < columns; ++i) sum += std::exp(values[token * columns + i]);
    wanted.push_back(std::log(sum) - values[token * columns + static_cast<size_t>(ids[token])]);
  }
  expect_close(bench.read<double>(b.loss), wanted, 1e-13, "loss in f64");
  expect_close(bench.read<float>(a.loss), wanted, 1e-6, "loss in f32");
  backward(bench, f32, a.lse, targets, 0, columns, 1);
  backward(bench, f64, b.lse, targets, 0, columns, 1);
  expect_close(bench.read<float>(f32), bench.read<double>(f64), 3e-6, "gradient");
}

TEST(CrossEntropy, LargeLogitsStayFinite) {
  Workbench bench;
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> logits(static_cast<size_t>(2 * kVocabBlock), -infinity);
  logits[1500] = 3e38F;
  logits[1501] = 1e38F;
  const Tensor targets = bench.make<int32_t>({1}, {1500});
  const int64_t columns = 2 * kVocabBlock;
  const Loss out = loss_in_chunks(bench, logits, targets, columns, columns, columns);
  EXPECT_EQ(bench.read<float>(out.loss), std::vector<float>{0});
  logits[7] = std::numeric_limits<float>::quiet_NaN();
  const Loss bad = loss_in_chunks(bench, logits, targets, columns, columns, columns);
  EXPECT_TRUE(std::isnan(bench.read<float>(bad.loss)[0]));
}

// The columns spread over ranks; each goes over its own, with as many of them as `widths` says.
template <class T>
Loss loss_over_ranks(Workbench& bench, const std::vector<T>& logits, const Tensor& targets,
                     int64_t columns, const std::vector<int64_t>& widths, int64_t vocab) {
  const int64_t tokens = targets.dim(0), ranks = static_cast<int64_t>(widths.size());
  Tensor parts = bench.empty<T>({ranks, tokens, 3}), running = bench.empty<T>({tokens, 3});
  int64_t first = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t width = widths[static_cast<size_t>(rank)];
    std::vector<T> own;
    for (int64_t token = 0; token < tokens; ++token)
      own.insert(own.end(), logits.begin() + token * columns + first,
                 logits.begin() + token * columns + first + width);
    Tensor part = parts.slice(rank, rank + 1).view({tokens, 3});
    cross_entropy_begin(bench.stream(), part);
    cross_entropy_chunk(bench.stream(), part, bench.make<T>({tokens, width}, own), targets, first,
                        vocab);
    first += width;
  }
  Loss out{bench.empty<T>({tokens}), bench.empty<T>({tokens}), running};
  cross_entropy_join(bench.stream(), running, parts);
  cross_entropy_end(bench.stream(), out.loss, out.lse, running, targets);
  return out;
}

TEST(CrossEntropy, RanksOfOneBlockEachGiveTheBitsOfTheWhole) {
  Workbench bench(2);
  const int64_t tokens = 9, columns = 4 * kVocabBlock, vocab = 2 * kVocabBlock + 100;
  const std::vector<float> logits =
      bench.read<float>(bench.random<float>({tokens, columns}, "logits", 3));
  const Tensor targets =
      bench.make<int32_t>({tokens}, {0, 1023, 1024, -1, 2147, 2048, 77, -1, 1500});
  const Loss whole = loss_in_chunks(bench, logits, targets, columns, columns, vocab);
  // The last rank owns nothing but padding.
  const Loss ranks =
      loss_over_ranks(bench, logits, targets, columns, std::vector<int64_t>(4, kVocabBlock), vocab);
  EXPECT_EQ(bench.bytes(ranks.running), bench.bytes(whole.running));
  EXPECT_EQ(bench.bytes(ranks.loss), bench.bytes(whole.loss));
  EXPECT_EQ(bench.bytes(ranks.lse), bench.bytes(whole.lse));
}

TEST(CrossEntropy, UnevenRanksAgreeWithTheWhole) {
  Workbench bench;
  const int64_t tokens = 5, columns = 60, vocab = 41;
  const std::vector<double> logits =
      bench.read<double>(bench.random<double>({tokens, columns}, "logits", 9));
  const Tensor targets = bench.make<int32_t>({tokens}, {0, 40, 17, -1, 30});
  const Loss whole = loss_in_chunks(bench, logits, targets, columns, columns, vocab);
  for (const std::vector<int64_t>& widths :
       {std::vector<int64_t>{60}, {30, 30}, {10, 31, 9, 10}, {1, 2, 38, 19}}) {
    const Loss ranks = loss_over_ranks(bench, logits, targets, columns, widths, vocab);
    expect_close(bench.read<double>(ranks.loss), bench.read<double>(whole.loss), 1e-14, "loss");
    expect_close(bench.read<double>(ranks.lse), bench.read<double>(whole.lse), 1e-14, "lse");
  }
}

TEST(CrossEntropy, ANaNOfOneRankReachesTheLoss) {
  Workbench bench;
  const Tensor targets = bench.make<int32_t>({1}, {2});
  for (const size_t place : {0, 3, 4, 5, 7}) {
    std::vector<float> logits(8, 1);
    logits[place] = std::numeric_limits<float>::quiet_NaN();
    const Loss out = loss_over_ranks(bench, logits, targets, 8, {4, 4}, 8);
    EXPECT_TRUE(std::isnan(bench.read<float>(out.loss)[0])) << place;
  }
}

TEST(CrossEntropy, ZLossAddsTheSquareOfTheLogSumAndItsGradient) {
  Workbench bench;
  const int64_t tokens = 4, columns = 11, vocab = 9;
  Tensor logits = bench.random<double>({tokens, columns}, "logits", 2);
  const Tensor targets = bench.make<int32_t>({tokens}, {0, 8, -1, 3});
  const double scale = 0.7, z = 0.3;
  Tensor loss = bench.empty<double>({tokens}), lse = bench.empty<double>({tokens});
  const auto total = [&] {
    const Loss plain =
        loss_in_chunks(bench, bench.read<double>(logits), targets, columns, columns, vocab);
    cross_entropy_end(bench.stream(), loss, lse, plain.running, targets, z);
    const std::vector<double> with = bench.read<double>(loss), l = bench.read<double>(lse);
    const std::vector<double> without = bench.read<double>(plain.loss);
    double sum = 0;
    for (size_t i = 0; i < with.size(); ++i) {
      EXPECT_NEAR(with[i], without[i] + z * l[i] * l[i], 1e-12);
      sum += with[i];
    }
    return sum * scale;
  };
  total();
  Tensor gradient = bench.make<double>({tokens, columns}, bench.read<double>(logits));
  backward(bench, gradient, lse, targets, 0, vocab, scale, z);
  expect_gradient(bench.stream(), logits, gradient, "logits", total);
}

TEST(CrossEntropy, BitsDoNotDependOnThreadsOrDevice) {
  expect_same_bits([](Workbench& bench) {
    const int64_t tokens = 65, columns = 2500;
    Tensor logits = bench.random<float>({tokens, columns}, "logits", 3);
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < tokens; ++i) ids.push_back(i % 9 == 0 ? -1 : i * 30);
    const Tensor targets = bench.make<int32_t>({tokens}, ids);
    const Loss out =
        loss_in_chunks(bench, bench.read<float>(logits), targets, columns, columns, 2490);
    backward(bench, logits, out.lse, targets, 0, 2490, 0.5);
    return bytes_of(bench, out.loss, out.lse, logits);
  });
}

TEST(CrossEntropy, OfWholeLogitsIsLossAndBackwardInOne) {
  for (const double z : {0.0, 0.3}) {
    Workbench bench;
    const int64_t tokens = 9, columns = 2500, vocab = 2490;
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < tokens; ++i) ids.push_back(i % 4 == 0 ? -1 : i * 300);
    const Tensor targets = bench.make<int32_t>({tokens}, ids), scale = bench.make<double>({1}, {3});
    const auto results = [&](bool is_one) {
      Tensor logits = bench.random<float>({tokens, columns}, "logits", 3);
      Tensor running = bench.empty<float>({tokens, 3});
      Tensor loss = bench.empty<float>({tokens}), lse = bench.empty<float>({tokens});
      if (is_one) {
        cross_entropy(bench.stream(), loss, lse, running, logits, targets, vocab, scale, z);
      } else {
        cross_entropy_begin(bench.stream(), running);
        cross_entropy_chunk(bench.stream(), running, logits, targets, 0, vocab);
        cross_entropy_end(bench.stream(), loss, lse, running, targets, z);
        cross_entropy_backward(bench.stream(), logits, lse, targets, 0, vocab, scale, z);
      }
      return bytes_of(bench, loss, lse, running, logits);
    };
    EXPECT_EQ(results(true), results(false));
  }
}

TEST(CrossEntropy, ReportsTargetsOutsideTheVocabularyAndTakesThemAsMinusOne) {
  Workbench bench(2, DeviceKind::Guarded);
  Stream& stream = bench.stream();
  const auto bytes_with = [&](const std::vector<int32_t>& ids) {
    const Tensor targets = bench.make<int32_t>({4}, ids);
    Tensor logits = bench.random<float>({4, 6}, "logits"), running = bench.empty<float>({4, 3});
    Tensor loss = bench.empty<float>({4}), lse = bench.empty<float>({4});
    cross_entropy_begin(stream, running);
    cross_entropy_chunk(stream, running, logits, targets, 0, 4);
    cross_entropy_end(stream, loss, lse, running, targets, 0.1);
    backward(bench, logits, lse, targets, 0, 4, 1, 0.1);
    return bytes_of(bench, loss, lse, logits);
  };
  const std::vector<std::byte> wanted = bytes_with({0, -1, -1, 3});
  stream.check_data();
  EXPECT_EQ(bytes_with({0, 4, -2, 3}), wanted);
  EXPECT_ERROR(stream.check_data(), Data,
               "cross_entropy_chunk: target 4 at position 1 is outside the vocabulary of 4 and not "
               "-1");
  EXPECT_EQ(bytes_with({0, -7, 1 << 30, 3}), wanted);
  EXPECT_ERROR(stream.check_data(), Data, "target -7 at position 1");
}

TEST(CrossEntropy, BackwardReportsTargetsToo) {
  Workbench bench;
  Tensor logits = bench.random<float>({2, 5}, "logits"), lse = bench.random<float>({2}, "lse");
  backward(bench, logits, lse, bench.make<int32_t>({2}, {0, 4}), 0, 4, 1);
  EXPECT_ERROR(bench.stream().check_data(), Data, "cross_entropy_backward: target 4 at position 1");
}

TEST(CrossEntropy, OfWholeLogitsRefusesWrongShapesAndReportsTargets) {
  Workbench bench;
  Tensor running = bench.empty<float>({2, 3}), logits = bench.random<float>({2, 5}, "logits");
  Tensor lse = bench.empty<float>({2}), loss = bench.empty<float>({2});
  const Tensor scale = bench.make<double>({1}, {1}), scales = bench.make<double>({2}, {1, 1});
  const Tensor targets = bench.make<int32_t>({2}, {0, 4});
  const auto call = [&](const Tensor& factor, int64_t vocab) {
    cross_entropy(bench.stream(), loss, lse, running, logits, targets, vocab, factor);
  };
  EXPECT_ERROR(call(scales, 4), Usage, "scale is f64 [2]");
  EXPECT_ERROR(call(scale, 0), Usage, "vocab=0");
  call(scale, 4);
  EXPECT_ERROR(bench.stream().check_data(), Data, "cross_entropy: target 4 at position 1");
}

TEST(CrossEntropy, RefusesWrongShapesAndTypes) {
  Workbench bench;
  Tensor running = bench.empty<float>({2, 3}), logits = bench.random<float>({2, 5}, "logits");
  const Tensor targets = bench.make<int32_t>({2}, {0, 1});
  Tensor lse = bench.empty<float>({2}), loss = bench.empty<float>({3});
  Tensor narrow = bench.empty<float>({2, 2});
  EXPECT_ERROR(cross_entropy_begin(bench.stream(), narrow), Usage, "running is f32 [2, 2]");
  cross_entropy_begin(bench.stream(), running);
  EXPECT_ERROR(cross_entropy_chunk(bench.stream(), running, logits, targets, 0, 0), Usage,
               "vocab=0");
  EXPECT_ERROR(cross_entropy_chunk(bench.stream(), running, logits, lse, 0, 5), Usage,
               "targets is f32 [2], must be i32 [2]");
  EXPECT_ERROR(cross_entropy_join(bench.stream(), running, bench.empty<float>({4, 3, 3})), Usage,
               "running is f32 [2, 3], must be f32 [3, 3]");
  EXPECT_ERROR(cross_entropy_join(bench.stream(), running, running), Usage, "must have 3 dims");
  EXPECT_ERROR(cross_entropy_end(bench.stream(), loss, lse, running, targets), Usage,
               "loss is f32 [3], must be f32 [2]");
  EXPECT_ERROR(backward(bench, logits, loss, targets, 0, 5, 1), Usage, "lse is f32 [3]");
  EXPECT_ERROR(cross_entropy_backward(bench.stream(), logits, lse, targets, 0, 5, lse), Usage,
               "scale is f32 [2], must be f64 [1]");
}

}  // namespace
}  // namespace sextant
