// Attention on a GPU: caches, merging, bad bounds, workspaces.
#include "support/attention_on_gpu.h"

namespace sextant {

template <class T>
void CudaAttention::expect_cached_like_whole(const Heads& heads,
                                             const std::vector<int64_t>& steps) {
  const std::vector<int32_t> starts(heads.tokens(), 0);
  Case<double, double> wanted(cpu(), heads, starts, T{});
  attention(cpu().stream(), wanted.out, wanted.lse, wanted.qkv, wanted.starts, heads);
  const Values qkv = download(cpu(), wanted.qkv), out = download(cpu(), wanted.out);
  const Shape cache{heads.batch, heads.kv_heads, heads.seq + 3, heads.head_dim};
  Tensor keys = stale<T>(gpu(), cache), values = stale<T>(gpu(), cache);
  int64_t past = 0;
  for (const int64_t step : steps) {
    const auto rows = [&](const Values& from, int64_t width) {
      Values some;
      for (int64_t row = 0; row < heads.batch; ++row) {
        const auto first = from.begin() + (row * heads.seq + past) * width;
        some.insert(some.end(), first, first + step * width);
      }
      return some;
    };
    Heads now = heads;
    now.seq = step;
    Tensor got = stale<T>(gpu(), {now.tokens(), now.out_width()});
    attention_cached(
        gpu().stream(), got, keys, values,
        upload<T>(gpu(), {now.tokens(), now.qkv_width()}, rows(qkv, heads.qkv_width())), past, now);
    expect_close<T>(download(gpu(), got), rows(out, heads.out_width()), concat("past=", past));
    past += step;
  }
}

TEST_F(CudaAttention, APromptThenTokensEqualTheWholeSequence) {
  expect_cached_like_whole<float>({2, 203, 4, 1, 64}, {150, 1, 1, 50, 1});
  expect_cached_like_whole<bf16>({2, 203, 4, 2, 128}, {1, 1, 148, 1, 1, 50, 1});
  expect_cached_like_whole<f16>({1, 110, 6, 3, 10}, {7, 1, 100, 2});
}

TEST_F(CudaAttention, AWindowEndsAtEachNewToken) {
  for (const int64_t window : {1, 2, 64, 100}) {
    expect_cached_like_whole<float>({2, 203, 4, 1, 64, window}, {150, 1, 1, 50, 1});
    expect_cached_like_whole<bf16>({2, 203, 4, 2, 128, window}, {1, 1, 148, 1, 1, 50, 1});
    expect_cached_like_whole<f16>({1, 110, 6, 3, 10, window}, {7, 1, 100, 2});
  }
}

TEST_F(CudaAttention, MergeKeepsTheRowsThatOnlyOnePartSaw) {
  const double none = -kInfinity;
  // Two tokens of two heads of width 2; lse is by head, then token.
  const Values out = {1, 2, 0, 0, 0, 0, 4, 8},
               out_b = {std::nan(""), std::nan(""), 7, 9, 0, 0, 8, 0};
  const auto expect_merged = [&]<class R, class T>(R, T) {
    Tensor to = upload<R>(gpu(), {2, 4}, out);
    Tensor lse = upload<float>(gpu(), {1, 2, 2}, {0.5, none, none, 0});
    const Tensor from = upload<T>(gpu(), {2, 4}, out_b);
    const Tensor lse_b = upload<float>(gpu(), {1, 2, 2}, {none, none, 2.5, std::log(3.0)});
    attention_merge(gpu().stream(), to, lse, from, lse_b);
    const Values o = download(gpu(), to), l = download(gpu(), lse);
    EXPECT_EQ(Values(o.begin(), o.begin() + 6), (Values{1, 2, 7, 9, 0, 0}));
    EXPECT_NEAR(o[6], 7, 1e-6);
    EXPECT_NEAR(o[7], 2, 1e-6);
    EXPECT_EQ(Values(l.begin(), l.begin() + 3), (Values{0.5, none, 2.5}));
    EXPECT_NEAR(l[3], std::log(4.0), 1e-6);
  };
  expect_merged(float{}, float{});
  expect_merged(bf16{}, bf16{});
  expect_merged(float{}, f16{});
}

TEST_F(CudaAttention, ReportsBadStartsAndClampsThem) {
  const Heads heads{2, 4, 1, 1, 8};
  const auto results = [&](const std::vector<int32_t>& starts) {
    Case<bf16, float> c(gpu(), heads, starts, bf16{});
    c.run();
    return c.bits();
  };
  const auto expect_bad = [&](const std::vector<int32_t>& starts,
                              const std::vector<int32_t>& clamped, const std::string& text) {
    EXPECT_EQ(results(starts), results(clamped)) << text;
    EXPECT_ERROR(gpu().stream().check_data(), Usage, "attention: " + text);
    gpu().stream().check_data();
  };
  expect_bad({0, 2, 2, 2, 0, 0, 0, 0}, {0, 1, 2, 2, 0, 0, 0, 0},
             "token 1 of row 0 starts at 2, must be between the start of the token before and 1");
  expect_bad({0, 0, 0, 0, 0, 1, 0, 9}, {0, 0, 0, 0, 0, 1, 1, 3},
             "token 2 of row 1 starts at 0, must be between the start of the token before and 2");
  expect_bad({-1, 0, 0, -9, -5, 1 << 30, 0, 0}, {0, 0, 0, 0, 0, 1, 1, 1},
             "token 0 of row 0 starts at -1");
}

TEST_F(CudaAttention, ReportsBadRangesAndClampsThem) {
  const Heads heads{1, 3, 1, 1, 8};
  const auto results = [&](const Bounds& bounds) {
    RangesCase<float, float, float> c(gpu(), heads, 4, bounds, float{});
    c.forward();
    c.backward();
    return c.bits();
  };
  const auto expect_bad = [&](const Bounds& bounds, const Bounds& clamped,
                              const std::string& text) {
    const auto wanted = results(clamped);
    gpu().stream().check_data();
    EXPECT_EQ(results(bounds), wanted) << text;
    EXPECT_ERROR(gpu().stream().check_data(), Usage, "attention_ranges: " + text);
  };
  expect_bad({{0, 2, 1}, {4, 4, 4}}, {{0, 2, 2}, {4, 4, 4}},
             "begin of token 2 of row 0 is 1, must be between 2 and 4");
  expect_bad({{0, 0, 0}, {1, 4, 5}}, {{0, 0, 0}, {1, 4, 4}},
             "end of token 2 of row 0 is 5, must be between 4 and 4");
  expect_bad({{-1, 0, 0}, {1, 1 << 30, 3}}, {{0, 0, 0}, {1, 4, 4}},
             "begin of token 0 of row 0 is -1, must be between 0 and 4");
}

// Bad bounds far apart, in a row longer than the threads that look at it.
TEST_F(CudaAttention, ReportsTheFirstBadBoundOfAllRows) {
  const Heads heads{3, 1000, 1, 1, 2};
  std::vector<int32_t> starts(heads.tokens(), 0);
  starts[2 * 1000 + 5] = -7;
  starts[1000 + 999] = 1000;
  starts[1000 + 700] = 701;
  Case<bf16, float> c(gpu(), heads, starts, bf16{});
  c.run();
  EXPECT_ERROR(gpu().stream().check_data(), Usage, "token 700 of row 1 starts at 701");
}

// What a dry run without a GPU plans for one.
TEST(AttentionWorkspace, IsTakenByAPhantomOfAGpuToo) {
  const Heads heads{2, 512, 6, 2, 64};
  for (const DeviceKind target : {DeviceKind::Cpu, DeviceKind::Cuda}) {
    Arena arena(Device{DeviceKind::Phantom, 0, target});
    {
      Stream stream(arena, 1);
      const auto tensor = [&](DType dtype, const Shape& shape) {
        return arena.allocate(Category::Activations, dtype, shape);
      };
      const Tensor qkv = tensor(DType::BF16, {heads.tokens(), heads.qkv_width()});
      const Tensor out = tensor(DType::BF16, {heads.tokens(), heads.out_width()});
      const Tensor lse = tensor(DType::F32, {heads.batch, heads.heads, heads.seq});
      const Tensor starts = tensor(DType::I32, {heads.batch, heads.seq});
      Tensor dqkv = tensor(DType::BF16, qkv.shape());
      arena.reset_peaks();
      const int64_t before = arena.peak(Category::Workspace);
      attention_backward(stream, dqkv, out, out, lse, qkv, starts, heads);
      EXPECT_EQ(arena.peak(Category::Workspace) - before,
                attention_workspace_bytes(heads, DType::BF16, target));
      EXPECT_EQ(arena.current(Category::Workspace), before);
    }
  }
}

TEST(AttentionWorkspace, IsForWhatTheLibraryComputesOnly) {
  const Heads heads{2, 512, 6, 2, 64}, odd{2, 512, 6, 2, 36};
  const Heads window{2, 512, 6, 2, 64, 100}, whole{2, 512, 6, 2, 64, 512};
  EXPECT_EQ(attention_workspace_bytes(heads, DType::BF16, DeviceKind::Cpu), 0);
  EXPECT_EQ(attention_workspace_bytes(heads, DType::F32, DeviceKind::Cuda), 0);
  EXPECT_EQ(attention_workspace_bytes(odd, DType::F16, DeviceKind::Cuda), 0);
  EXPECT_EQ(attention_workspace_bytes(window, DType::BF16, DeviceKind::Cuda), 0);
  EXPECT_EQ(attention_workspace_bytes(whole, DType::BF16, DeviceKind::Cuda),
            attention_workspace_bytes(heads, DType::BF16, DeviceKind::Cuda));
  EXPECT_EQ(attention_workspace_bytes(heads, DType::BF16, DeviceKind::Cuda, Bits::Repeat), 0);
}

TEST(AttentionWorkspace, ThatIsTooSmallIsRefused) {
  const Heads heads{1, 512, 1, 1, 64};
  const int64_t bytes = attention_workspace_bytes(heads, DType::BF16, DeviceKind::Cuda);
  if (bytes == 0) GTEST_SKIP() << "built without cuDNN";
  Arena arena(Device{DeviceKind::Phantom, 0, DeviceKind::Cuda});
  Stream stream(arena, 1);
  const auto tensor = [&](DType dtype, const Shape& shape) {
    return arena.allocate(Category::Activations, dtype, shape);
  };
  Tensor qkv = tensor(DType::BF16, {512, 192}), dqkv = tensor(DType::BF16, {512, 192});
  const Tensor out = tensor(DType::BF16, {512, 64}), lse = tensor(DType::F32, {1, 1, 512});
  const Tensor starts = tensor(DType::I32, {1, 512});
  Tensor small = tensor(DType::F8E4M3, {bytes - 1});
  EXPECT_ERROR(attention_backward_in(stream, dqkv, small, out, out, lse, qkv, starts, heads), Usage,
               concat("workspace of ", bytes - 1, " bytes, must be ", bytes));
}

TEST_F(CudaAttention, RefusesF64) {
  const Heads heads{1, 4, 1, 1, 8};
  Case<double, double> c(gpu(), heads, std::vector<int32_t>(4, 0), double{});
  EXPECT_ERROR(c.run(), Usage, "f64 runs on the CPU only");
}

}  // namespace sextant
