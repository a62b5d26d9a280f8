#include "bench/gemm.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace sextant {
namespace {

// Advances time per turn, so that nothing is really measured.
class GemmClock final : public Clock {
 public:
  double now() const override { return seconds_ += 0.25; }
  double wall() const override { return 0; }

 private:
  mutable double seconds_ = 0;
};

int calls = 0, threads_told = 0;
void counting_sgemm(int, int, int, int, int, int, float, const float*, int, const float*, int,
                    float, float*, int) {
  ++calls;
}
void note_threads(int threads) {
  threads_told = threads;
}

TEST(BenchGemm, ShapesOfAModelAreItsFifteenProducts) {
  const std::vector<GemmShape> shapes =
      gemm_shapes({.name = "tiny", .tokens = 8, .hidden = 4, .ffn = 16, .qkv = 12, .vocab = 20});
  ASSERT_EQ(shapes.size(), 15u);
  EXPECT_EQ(shapes[0].name, "tiny qkv forward");
  EXPECT_EQ(shapes[14].name, "tiny head backward weight");
  EXPECT_EQ(shapes[14].m, 20);
  EXPECT_EQ(shapes[14].n, 4);
  EXPECT_EQ(shapes[14].k, 8);
  EXPECT_EQ(shapes[14].flops(), 2.0 * 20 * 4 * 8);
  EXPECT_DOUBLE_EQ(shapes[14].flops_per_byte(), 1280.0 / (4 * (160 + 32 + 80)));
}

TEST(BenchGemm, RowsHoldOursThePeerAndTheLimit) {
  GemmOptions options;
  options.shapes = {{"one", 8, 16, 4, Transpose::No, Transpose::Yes}};
  options.threads = {2, 1};
  options.repeats = 3;
  options.pause_seconds = 0;
  options.peers = {{"counting", counting_sgemm, note_threads}};
  calls = 0;
  const std::vector<GemmRow> rows = bench_gemm(options, GemmClock());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(calls, 2 * 3 * 2);  // a warm-up and one timed call per turn
  EXPECT_EQ(threads_told, 2);
  EXPECT_EQ(rows[0].threads, 1);
  EXPECT_EQ(rows[0].peer, "counting, 1 thread");
  EXPECT_DOUBLE_EQ(rows[0].gflops, 2.0 * 8 * 16 * 4 / 0.25 / 1e9);
  EXPECT_DOUBLE_EQ(rows[0].peer_ratio(), 1);
  EXPECT_EQ(rows[1].peer, "counting, 1 thread") << "two threads were not faster than one";
  EXPECT_GT(rows[1].limit_gflops, 0);
  EXPECT_GT(rows[1].ridge, 0);
}

TEST(BenchGemm, EveryKnownPeerIsFoundOrSaidToBeMissing) {
  const BlasPeers peers = find_blas_peers();
  EXPECT_EQ(peers.found.size() + peers.missing.size(), 3u);
  for (const BlasPeer& peer : peers.found) EXPECT_TRUE(peer.sgemm && peer.set_threads);
  for (const std::string& name : peers.missing)
    EXPECT_NE(name.find("apt-get install"), std::string::npos) << name;
}

TEST(BenchGemm, RefusesNoRepeats) {
  GemmOptions options;
  options.repeats = 0;
  EXPECT_ERROR(bench_gemm(options, GemmClock()), Usage, "repeats=0, must be positive");
}

}  // namespace
}  // namespace sextant
