#include "ops/latent_heads.h"

#include "support/cuda_cases.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

using T = std::span<Tensor>;

class LatentHeadsCuda : public CudaTest {};

// The smallest, odd ones, and those of DeepSeek-V3.
TEST_F(LatentHeadsCuda, HeadsAreThoseOfTheCpu) {
  constexpr int64_t kRows = 11;
  for (const LatentHeads& heads :
       {LatentHeads{1, 1, 1, 2, 1}, LatentHeads{5, 3, 3, 6, 5, 1.7}, LatentHeads{2, 2, 2, 2, 2},
        LatentHeads{9, 16, 128, 64, 128, 0.9}}) {
    const Shape q = {heads.tokens, heads.heads * heads.head_dim()};
    const Shape kv = {heads.tokens, heads.heads * heads.kv()};
    const Shape k_rope = {heads.tokens, heads.rope};
    const Shape qkv = {heads.tokens, heads.heads * 3 * heads.head_dim()};
    const Shape values = {heads.tokens, heads.heads * heads.value};
    const CudaTensor positions = whole({heads.tokens}, some_below(heads.tokens, kRows));
    const CudaTensor table = statistics({kRows, heads.rope / 2}, Use::In, 1, 0);
    const std::string size = concat(" of ", heads.tokens, " tokens, ", heads.heads, " heads of ",
                                    heads.nope, " + ", heads.rope, " and ", heads.value);
    expect_like_cpu({"join_latent_heads" + size,
                     {out(qkv), in(q), in(kv), in(k_rope), positions, table, table},
                     [=](Stream& s, T t) {
                       join_latent_heads(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6], heads);
                     }});
    expect_like_cpu({"join_latent_heads_backward" + size,
                     {out(q), out(kv), out(k_rope), in(qkv), positions, table, table},
                     [=](Stream& s, T t) {
                       join_latent_heads_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6],
                                                  heads);
                     }});
    expect_like_cpu({"take_values" + size, {out(values), in(q)}, [=](Stream& s, T t) {
                       take_values(s, t[0], t[1], heads);
                     }});
    expect_like_cpu({"fill_values" + size, {out(q), in(values)}, [=](Stream& s, T t) {
                       fill_values(s, t[0], t[1], heads);
                     }});
  }
}

TEST_F(LatentHeadsCuda, PositionsOutsideOfTheTableAreReportedAsOnTheCpu) {
  for (const DeviceKind device : {DeviceKind::Cpu, DeviceKind::Cuda}) {
    Workbench bench(1, device);
    Tensor qkv = bench.empty<float>({3, 9});
    join_latent_heads(bench.stream(), qkv, bench.random<float>({3, 3}, "q"),
                      bench.random<float>({3, 2}, "kv"), bench.random<float>({3, 2}, "k_rope"),
                      bench.make<int32_t>({3}, {1, 4, -1}), bench.random<float>({3, 1}, "cos"),
                      bench.random<float>({3, 1}, "sin"), {3, 1, 1, 2, 1});
    EXPECT_ERROR(bench.stream().check_data(), Usage,
                 "join_latent_heads: position 4 of token 1, the table has 3");
  }
}

}  // namespace
}  // namespace sextant
