#include "ops/head_norm.h"
#include "ops/layernorm.h"
#include "ops/rmsnorm.h"
#include "support/cuda_cases.h"

namespace sextant {
namespace {

using T = std::span<Tensor>;
const Tensor kNone;

class NormsCuda : public CudaTest {};

// Rows that a warp holds, a block holds, and nobody holds; packs and single elements; more rounds
// of rows than a block fetches ahead.
struct RowCase {
  int64_t rows, hidden;
};
constexpr RowCase kRowCases[] = {{1, 1},     {5, 3},    {70, 65},   {33, 96},    {300, 768},
                                 {300, 512}, {9, 1000}, {40, 1600}, {110000, 8}, {7000, 1040},
                                 {17, 4096}, {5, 8192}, {3, 20000}, {2, 50257}};

std::string name_of_case(const char* op, const RowCase& size) {
  return std::string(op) + " of " + std::to_string(size.rows) + " x " + std::to_string(size.hidden);
}

TEST_F(NormsCuda, RmsNormIsThatOfTheCpu) {
  for (const RowCase& size : kRowCases) {
    const Shape matrix = {size.rows, size.hidden}, row = {size.hidden}, column = {size.rows};
    expect_like_cpu({name_of_case("rmsnorm", size),
                     {out(matrix), statistics(column, Use::Out), in(matrix), in(row, 0.3, 1)},
                     [](Stream& s, T t) { rmsnorm(s, t[0], t[1], t[2], kNone, t[3], 1e-5); }});
    expect_like_cpu(
        {name_of_case("rmsnorm onto a residual", size),
         {out(matrix), statistics(column, Use::Out), changed(matrix), in(row, 0.3, 1), in(matrix)},
         [](Stream& s, T t) { rmsnorm(s, t[0], t[1], t[2], t[4], t[3], 1e-5); },
         1});
  }
}

TEST_F(NormsCuda, RmsNormBackwardIsThatOfTheCpu) {
  for (const RowCase& size : kRowCases) {
    const Shape matrix = {size.rows, size.hidden}, row = {size.hidden}, column = {size.rows};
    const auto test = [&](const char* name, Write write, bool is_residual) {
      const Use use = write == Write::Add ? Use::InOut : Use::Out;
      expect_like_cpu({name_of_case(name, size),
                       {is_residual ? changed(matrix) : out(matrix), gradient(row, use), in(matrix),
                        in(matrix), statistics(column), in(row, 0.3, 1)},
                       [=](Stream& s, T t) {
                         rmsnorm_backward(s, t[0], t[1], t[2], t[3], t[4], t[5],
                                          is_residual ? t[0] : kNone, write);
                       }});
    };
    test("rmsnorm_backward", Write::Replace, false);
    test("rmsnorm_backward onto its residual", Write::Add, true);
  }
}

TEST_F(NormsCuda, LayerNormIsThatOfTheCpu) {
  for (const RowCase& size : kRowCases) {
    const Shape matrix = {size.rows, size.hidden}, row = {size.hidden}, column = {size.rows};
    // Rows far from 0: the variance must not come from a difference of large numbers.
    expect_like_cpu(
        {name_of_case("layernorm", size),
         {out(matrix), statistics(column, Use::Out), statistics(column, Use::Out), in(matrix, 1, 3),
          in(row, 0.3, 1), in(row)},
         [](Stream& s, T t) { layernorm(s, t[0], t[1], t[2], t[3], kNone, t[4], t[5], 1e-5); }});
    expect_like_cpu(
        {name_of_case("layernorm onto a residual", size),
         {out(matrix), statistics(column, Use::Out), statistics(column, Use::Out), changed(matrix),
          in(row, 0.3, 1), in(row), in(matrix)},
         [](Stream& s, T t) { layernorm(s, t[0], t[1], t[2], t[3], t[6], t[4], t[5], 0.1); },
         size.hidden < 10 ? 16 : 1});
  }
}

TEST_F(NormsCuda, LayerNormBackwardIsThatOfTheCpu) {
  for (const RowCase& size : kRowCases) {
    const Shape matrix = {size.rows, size.hidden}, row = {size.hidden}, column = {size.rows};
    const auto test = [&](const char* name, Write write, bool is_residual) {
      const Use use = write == Write::Add ? Use::InOut : Use::Out;
      expect_like_cpu({name_of_case(name, size),
                       {is_residual ? changed(matrix) : out(matrix), gradient(row, use),
                        gradient(row, use), in(matrix), in(matrix),
                        statistics(column, Use::In, 0.1, 0), statistics(column), in(row, 0.3, 1)},
                       [=](Stream& s, T t) {
                         layernorm_backward(s, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7],
                                            is_residual ? t[0] : kNone, write);
                       }});
    };
    test("layernorm_backward", Write::Replace, false);
    test("layernorm_backward onto its residual", Write::Add, true);
  }
}

TEST_F(NormsCuda, HeadNormIsThatOfTheCpu) {
  for (const Heads& heads :
       {Heads{2, 3, 4, 2, 4}, Heads{1, 50, 6, 6, 64}, Heads{2, 9, 8, 2, 128}, Heads{1, 5, 3, 1, 2},
        Heads{1, 7, 2, 1, 250}, Heads{1, 3, 2, 2, 256}}) {
    const std::string size = " with head_dim " + std::to_string(heads.head_dim);
    const Shape qkv = {heads.tokens(), heads.qkv_width()}, row = {heads.head_dim};
    const Shape kept = {heads.tokens(), heads.kv_heads * (heads.group() + 1)};
    expect_like_cpu(
        {"head_norm" + size,
         {out(qkv), statistics(kept, Use::Out), in(qkv), in(row, 0.3, 1), in(row, 0.3, 1)},
         [=](Stream& s, T t) { head_norm(s, t[0], t[1], t[2], t[3], t[4], heads, 1e-5); }});
    for (const bool is_in_place : {false, true}) {
      const Write write = is_in_place ? Write::Add : Write::Replace;
      const Use use = is_in_place ? Use::InOut : Use::Out;
      expect_like_cpu(
          {"head_norm_backward" + size + (is_in_place ? " in place" : ""),
           {is_in_place ? changed(qkv) : out(qkv), gradient(row, use), gradient(row, use), in(qkv),
            in(qkv), statistics(kept), in(row, 0.3, 1), in(row, 0.3, 1)},
           [=](Stream& s, T t) {
             head_norm_backward(s, t[0], t[1], t[2], is_in_place ? t[0] : t[3], t[4], t[5], t[6],
                                t[7], heads, write);
           }});
    }
  }
}

}  // namespace
}  // namespace sextant
