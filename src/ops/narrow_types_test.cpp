// Ops on bf16 and f16 compute in f32 and round once: on inputs that the narrow type holds exactly,
// a narrow result is the f32 op's, rounded, and an f32 result is the f32 op's itself, bit for bit.
#include <functional>

#include "ops/add.h"
#include "ops/attention.h"
#include "ops/attention_ranges.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/head_norm.h"
#include "ops/layernorm.h"
#include "ops/linear.h"
#include "ops/moe_permute.h"
#include "ops/rmsnorm.h"
#include "ops/rope.h"
#include "ops/split_heads.h"
#include "ops/sum.h"
#include "ops/swiglu.h"
#include "support/agree.h"
#include "support/narrow_tensors.h"

namespace sextant {
namespace {

using Tensors = std::span<Tensor>;
struct NarrowCase {
  const char* name;
  std::vector<Spec> tensors;
  std::function<void(Stream&, Tensors)> run;
};
void PrintTo(const NarrowCase& c, std::ostream* out) {
  *out << c.name;
}

class NarrowTypes : public testing::TestWithParam<NarrowCase> {};

TEST_P(NarrowTypes, RoundOnceWhatFloatsGive) {
  const NarrowCase& c = GetParam();
  for (const DType dtype : {DType::BF16, DType::F16})
    for (const int threads : {1, 3}) {
      Workbench bench(threads, DeviceKind::Guarded);
      std::vector<Tensor> floats, narrows;
      for (size_t i = 0; i < c.tensors.size(); ++i) {
        floats.push_back(make_tensor(bench, c.tensors[i], i, dtype, false));
        narrows.push_back(make_tensor(bench, c.tensors[i], i, dtype, true));
      }
      c.run(bench.stream(), floats);
      c.run(bench.stream(), narrows);
      bench.stream().check_data();
      for (size_t i = 0; i < c.tensors.size(); ++i) {
        const bool is_narrow = c.tensors[i].type == Spec::Type::Narrow;
        const std::vector<std::byte> wanted =
            is_narrow ? rounded(bench.read<float>(floats[i]), dtype) : bench.bytes(floats[i]);
        EXPECT_EQ(bench.bytes(narrows[i]), wanted)
            << "tensor " << i << " in " << name_of(dtype) << ", " << threads << " threads";
      }
    }
}

constexpr Heads kHeads{2, 131, 4, 2, 20};
constexpr double kEps = 1e-5;

// Queries of each batch row see the keys from a start on that does not decrease.
Spec starts() {
  return ints({kHeads.batch, kHeads.seq}, 1);
}

std::vector<NarrowCase> cases() {
  const Tensor none;
  const Heads h = kHeads;
  const Shape qkv{h.tokens(), h.qkv_width()}, out{h.tokens(), h.out_width()};
  const Shape lse{h.batch, h.heads, h.seq}, kv{h.tokens(), h.kv_width()};
  const auto product = [](const char* name, Transpose ta, Transpose tb, Write write, bool is_wide) {
    constexpr int64_t kM = 37, kN = 45, kK = 401;
    return NarrowCase{
        name,
        {is_wide ? wide({kM, kN}) : narrow({kM, kN}),
         narrow(ta == Transpose::Yes ? Shape{kK, kM} : Shape{kM, kK}),
         narrow(tb == Transpose::Yes ? Shape{kN, kK} : Shape{kK, kN})},
        [=](Stream& s, Tensors t) { matmul(s, t[0], t[1], ta, t[2], tb, {.write = write}); }};
  };
  constexpr Transpose kNo = Transpose::No, kYes = Transpose::Yes;
  return {
      {"add",
       {narrow({77}), narrow({77}), narrow({77})},
       [](Stream& s, Tensors t) { add(s, t[0], t[1], t[2]); }},
      {"swiglu",
       {narrow({5, 19}), narrow({5, 38})},
       [](Stream& s, Tensors t) { swiglu(s, t[0], t[1]); }},
      {"moe_permute_backward",
       {narrow({5, 77}), narrow({10, 77}), ints({10}, 10)},
       [](Stream& s, Tensors t) { moe_permute_backward(s, t[0], t[1], t[2]); }},
      {"moe_combine",
       {narrow({5, 77}), narrow({10, 77}), wide({5, 2}), ints({10}, 10)},
       [](Stream& s, Tensors t) { moe_combine(s, t[0], t[1], t[2], t[3]); }},
      {"moe_combine_backward",
       {narrow({10, 77}), wide({5, 2}), narrow({5, 77}), narrow({10, 77}), wide({5, 2}),
        ints({10}, 10)},
       [](Stream& s, Tensors t) { moe_combine_backward(s, t[0], t[1], t[2], t[3], t[4], t[5]); }},
      {"swiglu_backward",
       {narrow({5, 38}), narrow({5, 19}), narrow({5, 38})},
       [](Stream& s, Tensors t) { swiglu_backward(s, t[0], t[1], t[2]); }},
      {"rmsnorm",
       {narrow({9, 77}), wide({9}), narrow({9, 77}), narrow({77})},
       [=](Stream& s, Tensors t) { rmsnorm(s, t[0], t[1], t[2], none, t[3], kEps); }},
      {"rmsnorm_backward",
       {narrow({40, 77}), wide({77}), narrow({40, 77}), narrow({40, 77}), positive({40}),
        narrow({77}), narrow({40, 77})},
       [](Stream& s, Tensors t) {
         rmsnorm_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6], Write::Add);
       }},
      {"rmsnorm_backward with a narrow gradient",
       {narrow({40, 77}), narrow({77}), narrow({40, 77}), narrow({40, 77}), positive({40}),
        narrow({77})},
       [=](Stream& s, Tensors t) {
         rmsnorm_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], none, Write::Add);
       }},
      {"layernorm",
       {narrow({9, 77}), wide({9}), wide({9}), narrow({9, 77}), narrow({77}), narrow({77})},
       [=](Stream& s, Tensors t) { layernorm(s, t[0], t[1], t[2], t[3], none, t[4], t[5], kEps); }},
      {"layernorm_backward",
       {narrow({40, 77}), wide({77}), narrow({77}), narrow({40, 77}), narrow({40, 77}), wide({40}),
        positive({40}), narrow({77}), narrow({40, 77})},
       [](Stream& s, Tensors t) {
         layernorm_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8],
                            Write::Replace);
       }},
      {"head_norm",
       {narrow(qkv), wide({h.tokens(), 6}), narrow(qkv), narrow({20}), narrow({20})},
       [=](Stream& s, Tensors t) { head_norm(s, t[0], t[1], t[2], t[3], t[4], h, kEps); }},
      {"head_norm_backward",
       {narrow(qkv), wide({20}), narrow({20}), narrow(qkv), narrow(qkv), positive({h.tokens(), 6}),
        narrow({20}), narrow({20})},
       [=](Stream& s, Tensors t) {
         head_norm_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], h, Write::Replace);
       }},
      {"rope",
       {narrow(qkv), ints({h.tokens()}, 30), wide({30, 10}), wide({30, 10})},
       [=](Stream& s, Tensors t) { rope(s, t[0], t[1], t[2], t[3], h, RopeDirection::Backward); }},
      {"embedding",
       {narrow({9, 21}), narrow({5, 21}), ints({9}, 5)},
       [](Stream& s, Tensors t) { embedding(s, t[0], t[1], t[2], Write::Add); }},
      {"embedding_backward",
       {wide({5, 21}), narrow({29, 21}), ints({29}, 5)},
       [](Stream& s, Tensors t) { embedding_backward(s, t[0], t[1], t[2], Write::Add); }},
      {"embedding_backward with a narrow gradient",
       {narrow({5, 21}), narrow({29, 21}), ints({29}, 5)},
       [](Stream& s, Tensors t) { embedding_backward(s, t[0], t[1], t[2], Write::Add); }},
      {"dropout",
       {narrow({9, 21}), narrow({9, 21}), ints({9}, 100), f64({1})},
       [](Stream& s, Tensors t) {
         dropout(s, t[0], t[1], t[2], t[3], {1, "x", 0.3});
       }},
      product("matmul", kNo, kNo, Write::Replace, false),
      product("matmul transposed", kYes, kYes, Write::Add, false),
      product("matmul on", kNo, kYes, Write::Chain, false),
      product("matmul into floats", kYes, kNo, Write::Add, true),
      product("matmul on floats", kNo, kNo, Write::Chain, true),
      {"linear with GELU",
       {narrow({37, 45}), narrow({37, 51}), narrow({45, 51}), narrow({45}), narrow({37, 45})},
       [](Stream& s, Tensors t) {
         linear(s, t[0], t[1], t[2],
                {.activation = Activation::GeluTanh, .bias = t[3], .pre_activation = t[4]});
       }},
      {"linear_backward_input of exact GELU",
       {narrow({37, 51}), narrow({37, 45}), narrow({45, 51}), narrow({37, 51})},
       [](Stream& s, Tensors t) {
         linear_backward_input(s, t[0], t[1], t[2],
                               {.activation = Activation::GeluExact, .backward_of = t[3]});
       }},
      {"linear_backward_weight",
       {wide({45, 51}), wide({45}), narrow({37, 45}), narrow({37, 51})},
       [](Stream& s, Tensors t) { linear_backward_weight(s, t[0], t[1], t[2], t[3], Write::Add); }},
      {"linear_backward_weight with narrow gradients",
       {narrow({45, 77}), narrow({45}), narrow({37, 45}), narrow({37, 77})},
       [](Stream& s, Tensors t) { linear_backward_weight(s, t[0], t[1], t[2], t[3], Write::Add); }},
      {"attention",
       {narrow(out), wide(lse), narrow(qkv), starts()},
       [=](Stream& s, Tensors t) { attention(s, t[0], t[1], t[2], t[3], h); }},
      {"attention_backward",
       {narrow(qkv), narrow(out), narrow(out), positive(lse), narrow(qkv), starts()},
       [=](Stream& s, Tensors t) { attention_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], h); }},
      {"attention_cached one token",
       {narrow({2, 80}), narrow({2, 2, 140, 20}), narrow({2, 2, 140, 20}), narrow({2, 160})},
       [](Stream& s, Tensors t) {
         attention_cached(s, t[0], t[1], t[2], t[3], 120, {2, 1, 4, 2, 20});
       }},
      {"attention_cached",
       {narrow({6, 80}), narrow({2, 2, 140, 20}), narrow({2, 2, 140, 20}), narrow({6, 160})},
       [](Stream& s, Tensors t) {
         attention_cached(s, t[0], t[1], t[2], t[3], 120, {2, 3, 4, 2, 20});
       }},
      {"attention_ranges_backward",
       {narrow(qkv), narrow(kv), narrow(out), wide(lse), positive(lse), narrow(qkv), narrow(kv),
        ints({h.batch, h.seq}, 1), starts()},
       [=](Stream& s, Tensors t) {
         std::vector<int32_t> ends(static_cast<size_t>(h.tokens()), 117);
         copy_from_host<int32_t>(s, t[8], ends);
         attention_ranges_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], h,
                                   h.seq, Write::Chain, Write::Add);
       }},
      {"attention_ranges_backward into floats",
       {wide(qkv), wide(kv), narrow(out), wide(lse), positive(lse), narrow(qkv), narrow(kv),
        ints({h.batch, h.seq}, 1), starts()},
       [=](Stream& s, Tensors t) {
         std::vector<int32_t> ends(static_cast<size_t>(h.tokens()), 117);
         copy_from_host<int32_t>(s, t[8], ends);
         attention_ranges_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], h,
                                   h.seq, Write::Chain, Write::Add);
       }},
      {"attention_delta",
       {wide(lse), narrow(out), narrow(out)},
       [=](Stream& s, Tensors t) { attention_delta(s, t[0], t[1], t[2], h); }},
      {"attention_merge",
       {narrow(out), wide(lse), narrow(out), wide(lse)},
       [](Stream& s, Tensors t) { attention_merge(s, t[0], t[1], t[2], t[3]); }},
      {"attention_merge into floats",
       {wide(out), wide(lse), narrow(out), wide(lse)},
       [](Stream& s, Tensors t) { attention_merge(s, t[0], t[1], t[2], t[3]); }},
      {"cross_entropy_chunk",
       {wide({6, 3}), narrow({6, 1100}), ints({6}, 9)},
       [](Stream& s, Tensors t) {
         cross_entropy_begin(s, t[0]);
         cross_entropy_chunk(s, t[0], t[1], t[2], 0, 1090);
       }},
      {"cross_entropy",
       {wide({6}), wide({6}), wide({6, 3}), narrow({6, 1100}), ints({6}, 9), f64({1})},
       [](Stream& s, Tensors t) {
         cross_entropy(s, t[0], t[1], t[2], t[3], t[4], 1090, t[5], 0.1);
       }},
      {"cross_entropy_backward",
       {narrow({6, 1100}), positive({6}), ints({6}, 9), f64({1})},
       [](Stream& s, Tensors t) {
         cross_entropy_backward(s, t[0], t[1], t[2], 0, 1090, t[3], 0.1);
       }},
      {"repeat_kv_backward",
       {narrow({131, 640}), narrow({131, 960})},
       [](Stream& s, Tensors t) {
         repeat_kv_backward(s, t[0], t[1], {1, 131, 24, 4, 20}, 3);
       }},
      {"sums",
       {f64({1}), f64({1}), narrow({3, 77})},
       [](Stream& s, Tensors t) {
         sum(s, t[0], t[2], Write::Add);
         sum_of_squares(s, t[1], t.subspan(2));
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(Ops, NarrowTypes, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<NarrowCase>& info) {
                           std::string name = info.param.name;
                           std::ranges::replace_if(
                               name, [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

// The sum with the residual is rounded before the norm reads it: what add and then the norm give.
TEST(NarrowNorm, TheResidualSumIsRoundedFirst) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    Workbench bench;
    const auto make = [&](const Shape& shape, size_t number) {
      return make_tensor(bench, narrow(shape), number, dtype, true);
    };
    Tensor x = make({9, 77}, 0), same = make({9, 77}, 0), y = make({9, 77}, 1),
           y2 = make({9, 77}, 1);
    const Tensor residual = make({9, 77}, 2), weight = make({77}, 3);
    Tensor inverse = bench.empty<float>({9}), inverse2 = bench.empty<float>({9});
    rmsnorm(bench.stream(), y, inverse, x, residual, weight, kEps);
    add(bench.stream(), same, same, residual);
    rmsnorm(bench.stream(), y2, inverse2, same, Tensor(), weight, kEps);
    EXPECT_EQ(bytes_of(bench, x, y, inverse), bytes_of(bench, same, y2, inverse2));
  }
}

}  // namespace
}  // namespace sextant
