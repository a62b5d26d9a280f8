#include "ops/work_cases.h"

#include "ops/adamw.h"
#include "ops/add.h"
#include "ops/attention.h"
#include "ops/attention_ranges.h"
#include "ops/cast.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/head_norm.h"
#include "ops/layernorm.h"
#include "ops/linear.h"
#include "ops/pack_kv.h"
#include "ops/random_fill.h"
#include "ops/rmsnorm.h"
#include "ops/rope.h"
#include "ops/sequence_rows.h"
#include "ops/sgd.h"
#include "ops/split_heads.h"
#include "ops/sum.h"
#include "ops/swiglu.h"

namespace sextant {
namespace {

using T = std::span<Tensor>;

const Tensor kNone;
constexpr Heads kHeads{2, 3, 4, 2, 4};
constexpr Heads kWindowed{2, 3, 4, 2, 4, 2};
constexpr int64_t kKvSeq = 5;
const CaseTensor kQkv = f32_case({6, 32}), kOut = f32_case({6, 16}), kLse = f32_case({2, 4, 3});
const CaseTensor kStarts = i32_case({2, 3}, {0, 0, 0, 0, 0, 0});
const CaseTensor kKv = f32_case({2 * kKvSeq, 16}), kEnds = i32_case({2, 3}, {5, 5, 5, 5, 5, 5});
const CaseTensor kVector = f32_case({8}), kMatrix = f32_case({3, 8}), kRows = positive({3});
const CaseTensor kWhole = f32_case({12, 2}), kParts = f32_case({3, 4, 2});
const CaseTensor kIds = i32_case({3}, {5, 2, 3}), kTargets = i32_case({2}, {0, 4});
const std::vector<TokenChunk> kChunks = {{1, 4, 2}, {4, 1, 1}};  // 3 of 6 tokens

WorkCase matmul_case(const char* name, Write write) {
  return {name, {f32_case({3, 5}), f32_case({3, 4}), f32_case({4, 5})}, [=](Stream& s, T t) {
            matmul(s, t[0], t[1], Transpose::No, t[2], Transpose::No, {.write = write});
          }};
}

WorkCase linear_backward_weight_case(const char* name, Write write) {
  return {name,
          {f32_case({5, 4}), f32_case({5}), f32_case({3, 5}), f32_case({3, 4})},
          [=](Stream& s, T t) { linear_backward_weight(s, t[0], t[1], t[2], t[3], write); }};
}

WorkCase ranges_backward_case(const char* name, Write dq, Write dkv) {
  return {name, {kQkv, kKv, kOut, kLse, kLse, kQkv, kKv, kStarts, kEnds}, [=](Stream& s, T t) {
            attention_ranges_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8],
                                      kHeads, kKvSeq, dq, dkv);
          }};
}

// New tokens are written into the cache before they are read there.
WorkCase cached_case(const char* name, int64_t seq, int64_t window = 0) {
  return {
      name,
      {f32_case({seq, 16}), f32_case({1, 2, 6, 4}), f32_case({1, 2, 6, 4}), f32_case({seq, 32})},
      [=](Stream& s, T t) {
        attention_cached(s, t[0], t[1], t[2], t[3], 3, {1, seq, 4, 2, 4, window});
      },
      Reads::AtMost};
}

// Half of x is dropped.
WorkCase dropout_case(const char* name, bool is_in_place) {
  return {name,
          {kMatrix, i32_case({3}, {4, 0, 9}), kMatrix, positive({1}, DType::F64)},
          [=](Stream& s, T t) {
            dropout(s, t[0], t[is_in_place ? 0 : 2], t[1], t[3], {3, "mask", 0.5, 0});
          },
          Reads::AtMost};
}

WorkCase embedding_case(const char* name, Write write, const TableRows& part, Reads reads) {
  return {name,
          {f32_case({3, 4}), f32_case({8, 4}), kIds},
          [=](Stream& s, T t) { embedding(s, t[0], t[1], t[2], write, part); },
          reads};
}

WorkCase embedding_backward_case(const char* name, Write write) {
  return {name, {f32_case({8, 4}), f32_case({3, 4}), kIds}, [=](Stream& s, T t) {
            embedding_backward(s, t[0], t[1], t[2], write);
          }};
}

WorkCase head_norm_backward_case(const char* name, bool is_in_place, Write write) {
  std::vector<CaseTensor> tensors = {
      kQkv, f32_case({4}), f32_case({4}), kQkv, positive({6, 6}), f32_case({4}), f32_case({4})};
  if (!is_in_place) tensors.push_back(kQkv);
  return {name, tensors, [=](Stream& s, T t) {
            head_norm_backward(s, t[0], t[1], t[2], t[is_in_place ? 0 : 7], t[3], t[4], t[5], t[6],
                               kHeads, write);
          }};
}

WorkCase layernorm_backward_case(const char* name, bool is_residual, Write write) {
  return {name,
          {kMatrix, kVector, kVector, kMatrix, kMatrix, f32_case({3}), kRows, kVector},
          [=](Stream& s, T t) {
            layernorm_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7],
                               is_residual ? t[0] : kNone, write);
          }};
}

WorkCase rmsnorm_backward_case(const char* name, bool is_residual, Write write) {
  return {name, {kMatrix, kVector, kMatrix, kMatrix, kRows, kVector}, [=](Stream& s, T t) {
            rmsnorm_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], is_residual ? t[0] : kNone,
                             write);
          }};
}

WorkCase rope_case(const char* name, RopeDirection direction) {
  return {name,
          {kQkv, i32_case({6}, {1, 7, 2, 0, 5, 3}), f32_case({9, 2}), f32_case({9, 2})},
          [=](Stream& s, T t) { rope(s, t[0], t[1], t[2], t[3], kHeads, direction); }};
}

WorkCase sum_case(const char* name, Write write) {
  return {
      name, {typed(DType::F64, {1}), kVector}, [=](Stream& s, T t) { sum(s, t[0], t[1], write); }};
}

std::vector<WorkCase> attention_cases() {
  return {
      {"attention",
       {kOut, kLse, kQkv, kStarts},
       [](Stream& s, T t) { attention(s, t[0], t[1], t[2], t[3], kHeads); }},
      {"attention_backward",
       {kQkv, kOut, kOut, kLse, kQkv, kStarts},
       [](Stream& s, T t) { attention_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], kHeads); }},
      cached_case("attention_cached of some", 2),
      cached_case("attention_cached of one", 1),
      cached_case("attention_cached in a window", 2, 2),
      {"attention in a window",
       {kOut, kLse, kQkv, kStarts},
       [](Stream& s, T t) { attention(s, t[0], t[1], t[2], t[3], kWindowed); }},
      {"attention_backward in a window",
       {kQkv, kOut, kOut, kLse, kQkv, kStarts},
       [](Stream& s, T t) {
         attention_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], kWindowed);
       }},
      {"attention_ranges",
       {kOut, kLse, kQkv, kKv, kStarts, kEnds},
       [](Stream& s, T t) {
         attention_ranges(s, t[0], t[1], t[2], t[3], t[4], t[5], kHeads, kKvSeq);
       }},
      ranges_backward_case("attention_ranges_backward", Write::Replace, Write::Replace),
      ranges_backward_case("attention_ranges_backward of later parts", Write::Chain, Write::Add),
      {"attention_delta",
       {kLse, kOut, kOut},
       [](Stream& s, T t) { attention_delta(s, t[0], t[1], t[2], kHeads); }},
      {"attention_merge",
       {kOut, kLse, kOut, kLse},
       [](Stream& s, T t) { attention_merge(s, t[0], t[1], t[2], t[3]); }},
      {"pack_kv", {kOut, kQkv}, [](Stream& s, T t) { pack_kv(s, t[0], t[1], kHeads); }},
      {"unpack_kv", {kQkv, kOut}, [](Stream& s, T t) { unpack_kv(s, t[0], t[1], kHeads); }},
      {"rope_table",
       {f32_case({5, 3}), f32_case({5, 3})},
       [](Stream& s, T t) { rope_table(s, t[0], t[1], {}); }},
      rope_case("rope", RopeDirection::Forward),
      rope_case("rope backward", RopeDirection::Backward),
      {"head_norm",
       {kQkv, f32_case({6, 6}), kQkv, f32_case({4}), f32_case({4})},
       [](Stream& s, T t) { head_norm(s, t[0], t[1], t[2], t[3], t[4], kHeads, 1e-5); }},
      head_norm_backward_case("head_norm_backward", false, Write::Replace),
      head_norm_backward_case("head_norm_backward in place", true, Write::Add),
      {"split_heads",
       {f32_case({2, 3, 4}), kMatrix},
       [](Stream& s, T t) { split_heads(s, t[0], t[1]); }},
      {"join_heads",
       {kMatrix, f32_case({2, 3, 4})},
       [](Stream& s, T t) { join_heads(s, t[0], t[1]); }},
      {"repeat_kv",
       {f32_case({6, 48}), kQkv},
       [](Stream& s, T t) { repeat_kv(s, t[0], t[1], kHeads, 2); }},
      {"repeat_kv_backward",
       {kQkv, f32_case({6, 48})},
       [](Stream& s, T t) { repeat_kv_backward(s, t[0], t[1], kHeads, 2); }},
      {"join_sequence", {kWhole, kParts}, [](Stream& s, T t) { join_sequence(s, t[0], t[1], 2); }},
      {"split_sequence",
       {kParts, kWhole},
       [](Stream& s, T t) { split_sequence(s, t[0], t[1], 2); }},
      {"gather_chunks",
       {kWhole, kParts},
       [](Stream& s, T t) { gather_chunks(s, t[0], t[1], 2, TokenChunks(kChunks)); }},
      {"scatter_chunks",
       {kParts, kWhole},
       [](Stream& s, T t) { scatter_chunks(s, t[0], t[1], 2, TokenChunks(kChunks)); }},
  };
}

std::vector<WorkCase> product_cases() {
  return {
      matmul_case("matmul", Write::Replace),
      matmul_case("matmul added", Write::Add),
      matmul_case("matmul chained", Write::Chain),
      {"linear",
       {f32_case({3, 5}), f32_case({3, 4}), f32_case({5, 4}), f32_case({5}), f32_case({3, 5})},
       [](Stream& s, T t) {
         linear(s, t[0], t[1], t[2],
                {.write = Write::Add,
                 .activation = Activation::GeluTanh,
                 .bias = t[3],
                 .pre_activation = t[4]});
       }},
      {"linear_backward_input",
       {f32_case({3, 4}), f32_case({3, 5}), f32_case({5, 4}), f32_case({3, 4})},
       [](Stream& s, T t) {
         linear_backward_input(s, t[0], t[1], t[2],
                               {.activation = Activation::GeluExact, .backward_of = t[3]});
       }},
      linear_backward_weight_case("linear_backward_weight", Write::Replace),
      linear_backward_weight_case("linear_backward_weight added", Write::Add),
      linear_backward_weight_case("linear_backward_weight chained", Write::Chain),
      embedding_case("embedding", Write::Replace, {}, Reads::All),
      embedding_case("embedding added", Write::Add, {}, Reads::All),
      // Id 2 is another part's.
      embedding_case("embedding of a part", Write::Replace, {3, 11}, Reads::AtMost),
      embedding_backward_case("embedding_backward", Write::Replace),
      embedding_backward_case("embedding_backward added", Write::Add),
      {"cross_entropy",
       {f32_case({2}), f32_case({2}), f32_case({2, 3}), f32_case({2, 5}), kTargets,
        positive({1}, DType::F64)},
       [](Stream& s, T t) { cross_entropy(s, t[0], t[1], t[2], t[3], t[4], 5, t[5], 0.1); }},
      {"cross_entropy_begin",
       {f32_case({3, 3})},
       [](Stream& s, T t) { cross_entropy_begin(s, t[0]); }},
      // The logit of the target replaces the one there. Logits lie above the running largest one.
      {"cross_entropy_chunk",
       {f32_case({2, 3}), {DType::F32, {2, 5}, 1, 9}, kTargets},
       [](Stream& s, T t) { cross_entropy_chunk(s, t[0], t[1], t[2], 0, 5); },
       Reads::AtMost},
      {"cross_entropy_join",
       {f32_case({3, 3}), f32_case({2, 3, 3})},
       [](Stream& s, T t) { cross_entropy_join(s, t[0], t[1]); }},
      {"cross_entropy_end",
       {f32_case({3}), f32_case({3}), positive({3, 3}), kIds},
       [](Stream& s, T t) { cross_entropy_end(s, t[0], t[1], t[2], t[3], 0.1); }},
      {"cross_entropy_backward",
       {f32_case({2, 5}), positive({2}), kTargets, positive({1}, DType::F64)},
       [](Stream& s, T t) { cross_entropy_backward(s, t[0], t[1], t[2], 0, 5, t[3], 0.1); }},
  };
}

std::vector<WorkCase> element_cases() {
  return {
      {"adamw",
       {kVector, kVector, positive({8}), kVector, positive({kUpdateScalars}, DType::F64)},
       [](Stream& s, T t) {
         const AdamWPart part{t[0], t[1], t[2], t[3], 0.1};
         adamw(s, {&part, 1}, t[4], {});
       },
       Reads::AtMost},  // whether to apply it is yes or no
      {"add", {kVector, kVector, kVector}, [](Stream& s, T t) { add(s, t[0], t[1], t[2]); }},
      {"add of one tensor twice",
       {kVector, kVector},
       [](Stream& s, T t) { add(s, t[0], t[1], t[1]); }},
      {"add in place", {kVector, kVector}, [](Stream& s, T t) { add(s, t[0], t[0], t[1]); }},
      {"cast",
       {typed(DType::BF16, {8}), kVector},
       [](Stream& s, T t) { cast(s, t[0], t[1], Rounding::NearestEven, 0, 0); }},
      {"cast by chance",
       {typed(DType::F16, {8}), typed(DType::F64, {8})},
       [](Stream& s, T t) { cast(s, t[0], t[1], Rounding::Stochastic, 5, 3); }},
      dropout_case("dropout", false),
      dropout_case("dropout in place", true),
      {"fill_normal", {kVector}, [](Stream& s, T t) { fill_normal(s, t[0], 1, "y", 0.5, 2); }},
      {"fill_constant", {kVector}, [](Stream& s, T t) { fill_constant(s, t[0], 2); }},
      {"layernorm",
       {kMatrix, f32_case({3}), f32_case({3}), kMatrix, kVector, kVector},
       [](Stream& s, T t) { layernorm(s, t[0], t[1], t[2], t[3], kNone, t[4], t[5], 1e-5); }},
      {"layernorm onto a residual",
       {kMatrix, f32_case({3}), f32_case({3}), kMatrix, kVector, kVector, kMatrix},
       [](Stream& s, T t) { layernorm(s, t[0], t[1], t[2], t[3], t[6], t[4], t[5], 1e-5); }},
      layernorm_backward_case("layernorm_backward", false, Write::Replace),
      layernorm_backward_case("layernorm_backward onto its residual", true, Write::Add),
      {"rmsnorm",
       {kMatrix, f32_case({3}), kMatrix, kVector},
       [](Stream& s, T t) { rmsnorm(s, t[0], t[1], t[2], kNone, t[3], 1e-5); }},
      {"rmsnorm onto a residual",
       {kMatrix, f32_case({3}), kMatrix, kVector, kMatrix},
       [](Stream& s, T t) { rmsnorm(s, t[0], t[1], t[2], t[4], t[3], 1e-5); }},
      rmsnorm_backward_case("rmsnorm_backward", false, Write::Replace),
      rmsnorm_backward_case("rmsnorm_backward onto its residual", true, Write::Add),
      {"sgd",
       {kVector, kVector, kVector, positive({kUpdateScalars}, DType::F64)},
       [](Stream& s, T t) {
         const SgdPart part{t[0], t[1], t[2], 0.1};
         sgd(s, {&part, 1}, t[3], 0.9);
       },
       Reads::AtMost},
      {"sgd without velocity",
       {kVector, kVector, positive({kUpdateScalars}, DType::F64)},
       [](Stream& s, T t) {
         const SgdPart part{t[0], Tensor(), t[1], 0.1};
         sgd(s, {&part, 1}, t[2], 0);
       },
       Reads::AtMost},
      sum_case("sum", Write::Replace),
      sum_case("sum added", Write::Add),
      {"sum_of_squares",
       {typed(DType::F64, {1}), kVector, kMatrix},
       [](Stream& s, T t) { sum_of_squares(s, t[0], t.subspan(1)); }},
      {"clip",
       {typed(DType::F64, {kUpdateScalars}), positive({1}, DType::F64)},
       [](Stream& s, T t) { clip(s, t[0], t[1], 0.5); }},
      {"apply_unless_bad_data",
       {typed(DType::F64, {kUpdateScalars})},
       [](Stream& s, T t) { apply_unless_bad_data(s, t[0]); }},
      {"swiglu", {f32_case({3, 4}), kMatrix}, [](Stream& s, T t) { swiglu(s, t[0], t[1]); }},
      {"swiglu_backward",
       {kMatrix, f32_case({3, 4}), kMatrix},
       [](Stream& s, T t) { swiglu_backward(s, t[0], t[1], t[2]); }},
      {"swiglu_backward in place",
       {kMatrix, f32_case({3, 4})},
       [](Stream& s, T t) { swiglu_backward(s, t[0], t[1], t[0]); }},
  };
}

}  // namespace

const std::vector<WorkCase>& work_cases() {
  static const std::vector<WorkCase> cases = [] {
    std::vector<WorkCase> all = attention_cases();
    for (const auto& some : {product_cases(), element_cases(), expert_cases(), fp8_cases()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
  return cases;
}

}  // namespace sextant
