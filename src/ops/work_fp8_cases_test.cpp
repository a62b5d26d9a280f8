// Calls of the ops of fp8, for work_test.
#include "ops/delayed_amax.h"
#include "ops/linear.h"
#include "ops/quantize_turned.h"
#include "ops/work_cases.h"

namespace sextant {
namespace {

using T = std::span<Tensor>;

}  // namespace

std::vector<WorkCase> fp8_cases() {
  return {
      {"block_amax",
       {f32_case({2, 2}), f32_case({2, 200})},
       [](Stream& s, T t) {
         block_amax(s, t[0], t[1], {1, 128});
       },
       Reads::AtMost},
      {"quantize",
       {typed(DType::F8E4M3, {2, 4}), f32_case({2, 4}), {DType::F32, {1, 1}, 0, 3}},
       [](Stream& s, T t) { quantize(s, t[0], t[1], t[2], {}); },
       Reads::AtMost},
      {"quantize_blocks",
       {typed(DType::F8E4M3, {2, 200}), f32_case({1, 2}), f32_case({2, 200})},
       [](Stream& s, T t) { quantize_blocks(s, t[0], t[1], t[2]); },
       Reads::AtMost},
      {"take_delayed_amax",
       {{DType::F32, {1, 1}, 13, 15}, positive({1}), f32_case({1})},
       [](Stream& s, T t) { take_delayed_amax(s, t[0], t[1], t[2], WithAmax::Used); },
       Reads::AtMost},
      {"update_delayed_amax",
       {positive({2, 4}), positive({2})},
       [](Stream& s, T t) { update_delayed_amax(s, t[0], t[1], 0); },
       Reads::AtMost},
      {"matmul in fp8",
       {f32_case({3, 5}),
        typed(DType::F8E5M2, {3, 4}),
        typed(DType::F8E4M3, {5, 4}),
        {DType::F32, {1, 1}, 0, 3},
        {DType::F32, {1, 1}, 0, 2}},
       [](Stream& s, T t) { linear(s, t[0], t[1], t[2], {.amax_a = t[3], .amax_b = t[4]}); },
       Reads::AtMost},
      // dw [5, 4] of 3 tokens.
      {"weight gradient in fp8",
       {f32_case({5, 4}),
        f32_case({5}),
        typed(DType::F8E5M2, {3, 5}),
        typed(DType::F8E4M3, {3, 4}),
        {DType::F32, {1, 1}, 0, 3},
        {DType::F32, {1, 1}, 0, 2}},
       [](Stream& s, T t) {
         linear_backward_weight(s, t[0], t[1], t[2], t[3], Write::Replace,
                                {.amax_a = t[4], .amax_b = t[5]});
       },
       Reads::AtMost},
      {"weight gradient in fp8 from transposed operands",
       {f32_case({5, 4}),
        typed(DType::F8E5M2, {5, 3}),
        typed(DType::F8E4M3, {4, 3}),
        {DType::F32, {1, 1}, 0, 3},
        {DType::F32, {1, 1}, 0, 2}},
       [](Stream& s, T t) {
         Tensor none;
         linear_backward_weight(s, t[0], none, t[1], t[2], Write::Replace,
                                {.amax_a = t[3], .amax_b = t[4]}, Transpose::Yes, Transpose::Yes);
       },
       Reads::AtMost},
      {"quantize_turned",
       {typed(DType::F8E4M3, {16, 32}),
        typed(DType::F8E4M3, {32, 16}),
        {DType::F32, {1, 1}, 0, 3},
        f32_case({16, 32})},
       [](Stream& s, T t) { quantize_turned(s, t[0], t[1], t[2], t[3]); },
       Reads::AtMost},
      {"quantize_turned_tiles",
       {typed(DType::F8E4M3, {16, 32}), f32_case({16, 1}), typed(DType::F8E4M3, {32, 16}),
        f32_case({32, 1}), f32_case({16, 32})},
       [](Stream& s, T t) { quantize_turned_tiles(s, t[0], t[1], t[2], t[3], t[4]); },
       Reads::AtMost},
      {"quantize_turned with an activation and sums",
       {typed(DType::F8E4M3, {16, 32}),
        typed(DType::F8E4M3, {32, 16}),
        {DType::F32, {1, 1}, 0, 3},
        f32_case({16, 32}),
        f32_case({16, 32}),
        f32_case({1, 32})},
       [](Stream& s, T t) {
         quantize_turned(s, t[0], t[1], t[2], t[3],
                         {.activated = {Activation::GeluTanh, t[4]}, .sums = t[5]});
       },
       Reads::AtMost,
       RunsOn::Cpu},
      {"sum_turned_tiles",
       {f32_case({32}), f32_case({3, 32})},
       [](Stream& s, T t) { sum_turned_tiles(s, t[0], t[1], Write::Add); }},
      {"activated_amax",
       {f32_case({1, 1}), f32_case({16, 32}), f32_case({16, 32})},
       [](Stream& s, T t) {
         activated_amax(s, t[0], t[1], {Activation::GeluTanh, t[2]});
       },
       Reads::AtMost,
       RunsOn::Cpu},
      {"activate",
       {f32_case({3, 8}), f32_case({3, 8}), f32_case({3, 8})},
       [](Stream& s, T t) {
         activate(s, t[0], t[1], {Activation::GeluTanh, t[2]});
       },
       Reads::All,
       RunsOn::Cpu},
  };
}

}  // namespace sextant
