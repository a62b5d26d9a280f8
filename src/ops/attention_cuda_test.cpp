#include "support/attention_on_gpu.h"

namespace sextant {

// Every width of a head with every length; the number of heads and the documents change from one to
// the next.
TEST_F(CudaAttention, EqualsTheCpuOverManyShapes) {
  const std::pair<int, int> kinds[] = {{2, 2}, {4, 1}, {6, 2}};
  const int documents[] = {0, 20, 0, 90};
  int i = 0;
  for (const int64_t seq : {1, 65, 96, 127, 1000})
    for (const int64_t dim : {2, 10, 32, 34, 64, 80, 96, 128, 192, 256}) {
      const auto [heads, kv_heads] = kinds[i % 3];
      const int64_t batch = seq < 1000 ? 2 : 1;
      expect_like_cpu<float>({batch, seq, heads, kv_heads, dim}, documents[i % 4]);
      expect_like_cpu<bf16>({batch, seq, heads, kv_heads, dim}, documents[(i + 1) % 4]);
      expect_like_cpu<f16>({batch, seq, heads, kv_heads, dim}, documents[(i + 2) % 4]);
      ++i;
    }
}

// cuDNN computes the rows that are one document, and kernels of our own the others.
TEST_F(CudaAttention, EqualsTheCpuWhenSomeRowsAreOneDocument) {
  const std::pair<int, int> kinds[] = {{3, 3}, {4, 1}, {6, 2}};
  int i = 0;
  for (const int64_t seq : {40, 128, 300})
    for (const int64_t dim : {64, 80, 128, 256}) {
      const auto [heads, kv_heads] = kinds[i++ % 3];
      const Heads shape{4, seq, heads, kv_heads, dim};
      std::vector<int32_t> starts(shape.tokens(), 0);
      std::fill(starts.begin() + 2 * seq - 1, starts.begin() + 2 * seq, seq - 1);  // row 1
      std::fill(starts.begin() + 3 * seq + 7, starts.end(), 7);                    // row 3
      expect_like_cpu<bf16>(shape, starts);
      expect_like_cpu<f16>(shape, starts);
    }
}

// A window of a tile, of parts of one and of several; rows that end within a tile. Types, groups
// and documents change from one shape to the next.
TEST_F(CudaAttention, WindowsEqualTheCpu) {
  const std::pair<int, int> kinds[] = {{2, 2}, {4, 1}, {6, 2}};
  const int documents[] = {0, 90, 0, 20};
  int i = 0;
  for (const int64_t window : {1, 2, 64, 100})
    for (const int64_t seq : {127, 300})
      for (const int64_t dim : {10, 64, 128, 256}) {
        const auto [heads, kv_heads] = kinds[i / 3 % 3];
        const Heads shape{1, seq, heads, kv_heads, dim, window};
        const int document = documents[i % 4];
        if (i % 3 == 0) expect_like_cpu<float>(shape, document);
        if (i % 3 == 1) expect_like_cpu<bf16>(shape, document);
        if (i % 3 == 2) expect_like_cpu<f16>(shape, document);
        ++i;
      }
}

TEST_F(CudaAttention, AWindowAsLongAsTheSequenceHasTheBitsOfNone) {
  for (const int64_t window : {130, 131, 100000}) {
    const Heads none{2, 130, 4, 2, 64}, whole{2, 130, 4, 2, 64, window};
    std::vector<int32_t> starts = random_starts(none, 50, 4);
    starts[129] = starts[259] = 129;  // no row is one document, which cuDNN would compute
    Case<bf16, float> a(gpu(), none, starts, bf16{}), b(gpu(), whole, starts, bf16{});
    Case<float, float> c(gpu(), none, starts, bf16{}), d(gpu(), whole, starts, bf16{});
    a.run();
    b.run();
    c.run();
    d.run();
    EXPECT_EQ(a.bits(), b.bits()) << window;
    EXPECT_EQ(c.bits(), d.bits()) << window;
  }
}

TEST_F(CudaAttention, SurvivesScoresOfAnySize) {
  const Heads heads{1, 200, 2, 1, 64};
  const std::vector<int32_t> starts = random_starts(heads, 50, 3);
  Case<bf16, float> got(gpu(), heads, starts, bf16{}, 150);
  Case<double, double> wanted(cpu(), heads, starts, bf16{}, 150);
  got.run();
  wanted.run();
  expect_lse(download(gpu(), got.lse), download(cpu(), wanted.lse));
  for (const double x : download(gpu(), got.out)) ASSERT_TRUE(std::isfinite(x));
  for (const double x : download(gpu(), got.dqkv)) ASSERT_TRUE(std::isfinite(x));
}

TEST_F(CudaAttention, RangesEqualTheCpuOverManyShapes) {
  const std::pair<Heads, int64_t> shapes[] = {
      {{1, 2, 1, 1, 8}, 3},       {{2, 65, 2, 1, 64}, 40},   {{1, 127, 4, 4, 16}, 13},
      {{2, 49, 4, 1, 24}, 200},   {{1, 300, 2, 1, 128}, 97}, {{1, 145, 4, 2, 80}, 300},
      {{2, 97, 2, 1, 10}, 96},    {{1, 60, 6, 2, 192}, 500}, {{1, 300, 2, 2, 34}, 150},
      {{1, 200, 2, 1, 256}, 390},
  };
  for (const auto& [heads, kv_seq] : shapes)
    for (const uint64_t seed : {1, 2}) {
      expect_ranges_like_cpu<float, float>(heads, kv_seq, seed);
      expect_ranges_like_cpu<bf16, bf16>(heads, kv_seq, seed);
      expect_ranges_like_cpu<bf16, float>(heads, kv_seq, seed);
      expect_ranges_like_cpu<f16, float>(heads, kv_seq, seed);
    }
}

TEST_F(CudaAttention, QueriesThatSeeNothingHaveNoGradient) {
  const Heads heads{1, 130, 1, 1, 16};
  const Bounds none{std::vector<int32_t>(130, 50), std::vector<int32_t>(130, 50)};
  RangesCase<bf16, float, float> c(gpu(), heads, 50, none, bf16{});
  c.forward();
  c.backward();
  EXPECT_EQ(download(gpu(), c.out), Values(130 * 16, 0));
  EXPECT_EQ(c.dq(), Values(130 * 16, 0));
  EXPECT_TRUE(std::isnan(download(gpu(), c.dqkv)[16])) << "the column of a key was written";
  EXPECT_EQ(download(gpu(), c.dkv), Values(50 * 32, 0));
  for (const double l : download(gpu(), c.lse)) EXPECT_EQ(l, -kInfinity);
}

// The keys of a row in blocks, as a ring brings them; batch 1, so that a block is a slice.
void expect_blocks_add_up(Workbench& gpu, Workbench& cpu, int64_t window) {
  const Heads heads{1, 500, 4, 2, 64, window};
  const std::vector<int32_t> starts = random_starts(heads, 250, 9);
  RangesCase<double, double, double> wanted(cpu, heads, 500, causal_bounds(starts, heads, 0, 500),
                                            bf16{});
  wanted.forward();
  wanted.backward();
  for (const int64_t block : {32, 96, 250}) {
    RangesCase<bf16, float, float> sum(gpu, heads, 500, causal_bounds(starts, heads, 0, 500),
                                       bf16{});
    std::vector<RangesCase<bf16, float, float>> parts;
    for (int64_t first = 0; first < 500; first += block) {
      const int64_t count = std::min(block, 500 - first);
      auto& part =
          parts.emplace_back(gpu, heads, count, causal_bounds(starts, heads, first, count), bf16{});
      part.kv = sum.kv.slice(first, first + count);
      part.dkv = sum.dkv.slice(first, first + count);
      part.forward();
      if (first == 0) {
        copy(gpu.stream(), sum.out, part.out);
        copy(gpu.stream(), sum.lse, part.lse);
      } else {
        attention_merge(gpu.stream(), sum.out, sum.lse, part.out, part.lse);
      }
    }
    for (auto& part : parts) {
      part.out = sum.out;
      part.lse = sum.lse;
      part.dqkv = sum.dqkv;
      part.backward(&part == &parts.front() ? Write::Replace : Write::Chain);
    }
    expect_lse(download(gpu, sum.lse), download(cpu, wanted.lse));
    expect_close<bf16>(download(gpu, sum.out), download(cpu, wanted.out), "out");
    expect_close<bf16>(sum.dq(), wanted.dq(), "dq");
    expect_close<bf16>(download(gpu, sum.dkv), download(cpu, wanted.dkv), "dkv");
  }
}

TEST_F(CudaAttention, BlocksOfKeysAddUpToTheWhole) {
  for (const int64_t window : {0, 100}) expect_blocks_add_up(gpu(), cpu(), window);
}

template <class T>
void expect_bits_of_whole(Workbench& gpu, int64_t dim) {
  const Heads heads{1, 300, 2, 1, dim};
  const std::vector<int32_t> starts(300, 0);
  RangesCase<T, float, float> whole(gpu, heads, 300, causal_bounds(starts, heads, 0, 300), T{});
  whole.forward();
  whole.backward();
  const Tensor dqkv = stale<float>(gpu, whole.qkv.shape());
  for (int64_t first = 0; first < 300; first += kKeysTogether) {
    const int64_t count = std::min(kKeysTogether, 300 - first);
    RangesCase<T, float, float> part(gpu, heads, count, causal_bounds(starts, heads, first, count),
                                     T{});
    part.kv = whole.kv.slice(first, first + count);
    part.out = whole.out;
    part.lse = whole.lse;
    part.dqkv = dqkv;
    part.backward(first == 0 ? Write::Replace : Write::Chain);
  }
  const Values got = download(gpu, dqkv), wanted = download(gpu, whole.dqkv);
  EXPECT_EQ(queries_of(got, heads), queries_of(wanted, heads))
      << name_of(kDTypeOf<T>) << " " << dim;
}

TEST_F(CudaAttention, GradientsOfAlignedBlocksGoOnWithTheBitsOfTheWhole) {
  for (const int64_t dim : {64, 80, 192}) {
    expect_bits_of_whole<float>(gpu(), dim);
    expect_bits_of_whole<bf16>(gpu(), dim);
    expect_bits_of_whole<f16>(gpu(), dim);
  }
}

void expect_bits_of_attention(Workbench& gpu, int64_t window) {
  const Heads heads{2, 230, 4, 2, 40, window};
  std::vector<int32_t> starts = random_starts(heads, 70, 6);
  starts[229] = starts[459] = 229;  // no row is one document, which cuDNN would compute
  Case<bf16, float> fused(gpu, heads, starts, bf16{});
  fused.run();
  RangesCase<bf16, float, bf16> ranges(gpu, heads, heads.seq,
                                       causal_bounds(starts, heads, 0, heads.seq), bf16{});
  const Values qkv = download(gpu, fused.qkv);
  const int64_t group = heads.group() * heads.head_dim, period = group + 2 * heads.head_dim;
  const auto keys_of = [&](const Values& values) {
    Values keys;
    for (size_t i = 0; i < values.size(); ++i)
      if (static_cast<int64_t>(i) % period >= group) keys.push_back(values[i]);
    return keys;
  };
  ranges.kv = upload<bf16>(gpu, ranges.kv.shape(), keys_of(qkv));
  ranges.forward();
  ranges.backward();
  EXPECT_EQ(gpu.bytes(ranges.out), gpu.bytes(fused.out));
  EXPECT_EQ(gpu.bytes(ranges.lse), gpu.bytes(fused.lse));
  const Values dqkv = download(gpu, fused.dqkv);
  EXPECT_EQ(ranges.dq(), queries_of(dqkv, heads));
  EXPECT_EQ(download(gpu, ranges.dkv), keys_of(dqkv));
}

TEST_F(CudaAttention, TheSameRangesGiveTheBitsOfAttention) {
  for (const int64_t window : {0, 2, 100}) expect_bits_of_attention(gpu(), window);
}

TEST_F(CudaAttention, RunsOfOurKernelsRepeatBitForBit) {
  for (const int64_t dim : {64, 128, 256}) {
    const Heads heads{2, 700, 4, 2, dim};
    std::vector<int32_t> starts = random_starts(heads, 300, 1);
    starts[699] = starts[1399] = 699;  // no row is one document, which cuDNN would compute
    Case<bf16, float> a(gpu(), heads, starts, bf16{}), b(gpu(), heads, starts, bf16{});
    Case<float, float> c(gpu(), heads, starts, bf16{}), d(gpu(), heads, starts, bf16{});
    a.run();
    c.run();
    d.run();
    b.run();
    EXPECT_EQ(a.bits(), b.bits()) << dim;
    EXPECT_EQ(c.bits(), d.bits()) << dim;
  }
}

}  // namespace sextant
