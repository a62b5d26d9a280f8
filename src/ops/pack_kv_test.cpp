#include "ops/pack_kv.h"

#include "support/agree.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

TEST(PackKv, TakesKeysAndValuesOutOfTheirGroups) {
  Workbench bench;
  // Two key-value heads with two query heads each, width 2; a token is q q k v q q k v.
  const Heads heads{1, 2, 4, 2, 2};
  std::vector<float> values;
  for (int i = 0; i < 32; ++i) values.push_back(static_cast<float>(i));
  Tensor qkv = bench.make<float>({2, 16}, values), kv = bench.empty<float>({2, 8});
  pack_kv(bench.stream(), kv, qkv, heads);
  EXPECT_EQ(bench.read<float>(kv), (std::vector<float>{4, 5, 6, 7, 12, 13, 14, 15,  //
                                                       20, 21, 22, 23, 28, 29, 30, 31}));
  const Tensor back = bench.make<float>({2, 8}, std::vector<float>(16, -1));
  unpack_kv(bench.stream(), qkv, back, heads);
  for (int i = 0; i < 32; ++i)
    if (i % 8 >= 4) values[static_cast<size_t>(i)] = -1;
  EXPECT_EQ(bench.read<float>(qkv), values);
}

TEST(PackKv, GoesBackToWhereItCameFrom) {
  expect_same_bits([](Workbench& bench) {
    const Heads heads{3, 301, 6, 3, 20};
    Tensor qkv = bench.random<double>({heads.tokens(), heads.qkv_width()}, "qkv");
    const std::vector<std::byte> before = bench.bytes(qkv);
    Tensor kv = bench.empty<double>({heads.tokens(), heads.kv_width()});
    pack_kv(bench.stream(), kv, qkv, heads);
    unpack_kv(bench.stream(), qkv, kv, heads);
    EXPECT_TRUE(bench.bytes(qkv) == before);
    return bytes_of(bench, kv);
  });
}

TEST(PackKv, RefusesWrongShapesAndTypes) {
  Workbench bench;
  const Heads heads{1, 2, 4, 2, 2};
  Tensor qkv = bench.empty<float>({2, 16}), narrow = bench.empty<float>({2, 7});
  Tensor wide = bench.empty<double>({2, 8});
  EXPECT_ERROR(pack_kv(bench.stream(), narrow, qkv, heads), Usage,
               "pack_kv: kv is f32 [2, 7], must be f32 [2, 8]");
  EXPECT_ERROR(unpack_kv(bench.stream(), qkv, wide, heads), Usage, "unpack_kv: kv is f64 [2, 8]");
  EXPECT_ERROR(unpack_kv(bench.stream(), narrow, wide, heads), Usage, "qkv is f32 [2, 7]");
}

}  // namespace
}  // namespace sextant
