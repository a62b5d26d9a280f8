// Ranges of keys that attention_ranges cannot take.
#include "ops/attention_ranges.h"
#include "support/agree.h"
#include "support/expect_error.h"

namespace sextant {
namespace {

constexpr Heads kHeads{1, 3, 1, 1, 8};
constexpr int64_t kKeys = 4;

struct Ranges {
  std::vector<int32_t> begin, end;
};

// One call and its backward.
class BadRanges : public testing::Test {
 protected:
  void forward(const Ranges& ranges) {
    attention_ranges(bench_.stream(), out_, lse_, qkv_, kv_, bounds(ranges.begin),
                     bounds(ranges.end), kHeads, kKeys);
  }
  void backward(const Ranges& ranges) {
    attention_delta(bench_.stream(), delta_, out_, out_, kHeads);
    attention_ranges_backward(bench_.stream(), dqkv_, dkv_, out_, delta_, lse_, qkv_, kv_,
                              bounds(ranges.begin), bounds(ranges.end), kHeads, kKeys,
                              Write::Replace, Write::Replace);
  }
  std::vector<std::byte> results(const Ranges& ranges) {
    for (Tensor* tensor : {&out_, &lse_, &delta_, &dqkv_, &dkv_})
      fill_zero(bench_.stream(), *tensor);
    forward(ranges);
    backward(ranges);
    return bytes_of(bench_, out_, lse_, dqkv_, dkv_);
  }
  Tensor bounds(const std::vector<int32_t>& values) { return bench_.make<int32_t>({1, 3}, values); }

  Workbench bench_{1, DeviceKind::Guarded};
  Tensor qkv_ = bench_.random<float>({3, kHeads.qkv_width()}, "qkv");
  Tensor kv_ = bench_.random<float>({kKeys, kHeads.kv_width()}, "kv");
  Tensor out_ = bench_.empty<float>({3, kHeads.out_width()});
  Tensor lse_ = bench_.empty<float>({1, 1, 3}), delta_ = bench_.empty<float>({1, 1, 3});
  Tensor dqkv_ = bench_.empty<float>(qkv_.shape()), dkv_ = bench_.empty<float>(kv_.shape());
};

TEST_F(BadRanges, ThatGoBackOrBeyondTheKeysAreReportedAndClamped) {
  const auto expect_bad = [&](const Ranges& ranges, const Ranges& clamped,
                              const std::string& text) {
    const std::vector<std::byte> wanted = results(clamped);
    bench_.stream().check_data();
    EXPECT_EQ(results(ranges), wanted) << text;
    EXPECT_ERROR(bench_.stream().check_data(), Usage, "attention_ranges: " + text);
  };
  expect_bad({{0, 2, 1}, {4, 4, 4}}, {{0, 2, 2}, {4, 4, 4}},
             "begin of token 2 of row 0 is 1, must be between 2 and 4");
  expect_bad({{0, 0, 0}, {1, 4, 5}}, {{0, 0, 0}, {1, 4, 4}},
             "end of token 2 of row 0 is 5, must be between 4 and 4");
  expect_bad({{-1, 0, 0}, {1, 1 << 30, 3}}, {{0, 0, 0}, {1, 4, 4}},
             "begin of token 0 of row 0 is -1, must be between 0 and 4");
}

TEST_F(BadRanges, AreReportedByTheBackwardToo) {
  results({{0, 0, 0}, {1, 2, 3}});
  backward({{0, 0, 0}, {1, 0, 3}});
  EXPECT_ERROR(bench_.stream().check_data(), Usage,
               "attention_ranges_backward: end of token 1 of row 0 is 0, must be between 1 and 4");
}

}  // namespace
}  // namespace sextant
