#include "comm/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"
#include "support/rank_values.h"

namespace sextant {
namespace {

template <class T>
std::vector<T> random_values(const char* name, int64_t count) {
  const Random random(5, name);
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(value_as<T>(random.normal(static_cast<uint64_t>(i)) * 100));
  return values;
}

template <class T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// The definition, one element at a time.
template <class T, class Wide>
T reduced(const std::vector<std::vector<T>>& in, size_t i, ReduceOp reduce_op, const T* add_to) {
  const auto wide = [](T x) {
    if constexpr (kIsNarrow<T>)
      return widen(x);
    else
      return x;
  };
  Wide result = wide(in[0][i]);
  for (size_t k = 1; k < in.size(); ++k) {
    const Wide next = wide(in[k][i]);
    if (reduce_op == ReduceOp::Sum) result = static_cast<Wide>(result + next);
    if (reduce_op == ReduceOp::Max) result = std::max(result, next);
    if (reduce_op == ReduceOp::Min) result = std::min(result, next);
  }
  if (add_to != nullptr) result = static_cast<Wide>(wide(*add_to) + result);
  if constexpr (kIsNarrow<T>)
    return round_nearest<T>(result);
  else
    return result;
}

template <class T, class Wide>
void expect_reductions(int ranks, int64_t count, ReduceOp reduce_op, Into into, Stores stores) {
  std::vector<std::vector<T>> in;
  std::vector<const std::byte*> pointers;
  for (int rank = 0; rank < ranks; ++rank)
    in.push_back(random_values<T>(std::to_string(rank).c_str(), count));
  for (auto& values : in) pointers.push_back(bytes_of(values));
  std::vector<T> out = random_values<T>("out", count), expected;
  for (size_t i = 0; i < out.size(); ++i)
    expected.push_back(reduced<T, Wide>(in, i, reduce_op, into == Into::Add ? &out[i] : nullptr));
  reduce_into(bytes_of(out), pointers, count, kDTypeOf<T>, reduce_op, into, stores);
  EXPECT_TRUE(same_bits(out, expected)) << name_of(kDTypeOf<T>) << ' ' << name_of(reduce_op)
                                        << " ranks " << ranks << " count " << count;
}

TEST(ReduceOp, GivesTheBitsOfTheDefinitionForEveryTypeFoldAndCount) {
  for (const int ranks : {1, 2, 3, 8})
    for (const int64_t count : {0, 1, 255, 256, 259, 1030})
      for (const ReduceOp reduce_op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min})
        for (const Into into : {Into::Replace, Into::Add})
          for (const Stores stores : {Stores::Cached, Stores::Streaming}) {
            expect_reductions<float, float>(ranks, count, reduce_op, into, stores);
            expect_reductions<double, double>(ranks, count, reduce_op, into, stores);
            expect_reductions<bf16, float>(ranks, count, reduce_op, into, stores);
            expect_reductions<f16, float>(ranks, count, reduce_op, into, stores);
            expect_reductions<int32_t, int32_t>(ranks, count, reduce_op, into, stores);
            expect_reductions<int64_t, int64_t>(ranks, count, reduce_op, into, stores);
          }
}

TEST(ReduceOp, RoundsNarrowTypesOnce) {
  // 256 + 1 is 256 in bf16, so rounding after every step would stay there.
  std::vector<bf16> large = {value_as<bf16>(256)}, one = {value_as<bf16>(1)}, out(1);
  const std::vector<const std::byte*> in = {bytes_of(large), bytes_of(one), bytes_of(one)};
  reduce_into(bytes_of(out), in, 1, DType::BF16, ReduceOp::Sum);
  EXPECT_EQ(value_of(out[0]), 258);
}

// Every code against codes far and near: subnormals, infinities, NaN, ties, overflow.
template <class T>
void expect_codes_as_convert_says() {
  std::vector<T> a, b, out(65536), expected;
  for (uint32_t code = 0; code < 65536; ++code) {
    a.push_back(T{static_cast<uint16_t>(code)});
    b.push_back(T{static_cast<uint16_t>(code * 40503U >> (code % 5))});
    expected.push_back(round_nearest<T>(widen(a.back()) + widen(b.back())));
  }
  const std::vector<const std::byte*> in = {bytes_of(a), bytes_of(b)};
  reduce_into(bytes_of(out), in, 65536, kDTypeOf<T>, ReduceOp::Sum);
  for (size_t i = 0; i < out.size(); ++i) {
    // The sign of a NaN that comes from two NaNs or opposite infinities is unspecified.
    const bool both = std::isnan(value_of(expected[i]));
    ASSERT_EQ(out[i].bits & (both ? 0x7fff : 0xffff), expected[i].bits & (both ? 0x7fff : 0xffff))
        << i;
  }
}

TEST(ReduceOp, RoundsEveryNarrowCodeAsConvertDoes) {
  expect_codes_as_convert_says<bf16>();
  expect_codes_as_convert_says<f16>();
}

TEST(ReduceOp, GoesFromTheFirstRankToTheLast) {
  std::vector<float> a = {1e8F}, b = {-1e8F}, c = {1}, out(1);
  reduce_into(bytes_of(out), std::vector<const std::byte*>{bytes_of(a), bytes_of(b), bytes_of(c)},
              1, DType::F32, ReduceOp::Sum);
  EXPECT_EQ(out[0], 1);
  reduce_into(bytes_of(out), std::vector<const std::byte*>{bytes_of(a), bytes_of(c), bytes_of(b)},
              1, DType::F32, ReduceOp::Sum);
  EXPECT_EQ(out[0], 0);
}

template <class T>
void expect_nan_wins() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<T> a(300, value_as<T>(1)), b = a, c = a, out = a;
  a[0] = value_as<T>(nan);
  b[1] = value_as<T>(nan);
  c[299] = value_as<T>(nan);
  const std::vector<const std::byte*> in = {bytes_of(a), bytes_of(b), bytes_of(c)};
  for (const ReduceOp reduce_op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min}) {
    reduce_into(bytes_of(out), in, 300, kDTypeOf<T>, reduce_op);
    for (const size_t i : {0, 1, 299}) EXPECT_TRUE(std::isnan(value_of(out[i]))) << i;
    EXPECT_FALSE(std::isnan(value_of(out[2])));
  }
}

TEST(ReduceOp, NanWinsWhereverItStands) {
  expect_nan_wins<float>();
  expect_nan_wins<double>();
  expect_nan_wins<bf16>();
  expect_nan_wins<f16>();
}

TEST(ReduceOp, TheOutputMayBeAnyOfTheInputs) {
  for (const size_t which : {0, 1, 2}) {
    std::vector<std::vector<float>> in;
    std::vector<const std::byte*> pointers;
    for (const char* name : {"a", "b", "c"}) in.push_back(random_values<float>(name, 777));
    for (auto& values : in) pointers.push_back(bytes_of(values));
    std::vector<float> apart(777);
    reduce_into(bytes_of(apart), pointers, 777, DType::F32, ReduceOp::Sum);
    reduce_into(bytes_of(in[which]), pointers, 777, DType::F32, ReduceOp::Sum);
    EXPECT_TRUE(same_bits(in[which], apart)) << which;
  }
}

TEST(ReduceOp, IntegersWrapAround) {
  std::vector<int32_t> a = {std::numeric_limits<int32_t>::max()}, b = {1}, out(1);
  reduce_into(bytes_of(out), std::vector<const std::byte*>{bytes_of(a), bytes_of(b)}, 1, DType::I32,
              ReduceOp::Sum);
  EXPECT_EQ(out[0], std::numeric_limits<int32_t>::min());
}

TEST(CopyInto, TakesAnyLengthToAnyAddressAnyWay) {
  std::vector<std::byte> from(9001), to(9100);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256 + 1);
  for (const Stores stores : {Stores::Cached, Stores::Streaming})
    for (const Source source : {Source::Memory, Source::Cache})
      for (const size_t offset : {0, 1, 31, 33})
        for (const size_t length : {0, 1, 31, 64, 200, 499, 512, 777, 4096, 9000}) {
          std::fill(to.begin(), to.end(), std::byte{0});
          copy_into(to.data() + offset, from.data() + 1, static_cast<int64_t>(length), stores,
                    source);
          finish_stores();
          EXPECT_EQ(std::memcmp(to.data() + offset, from.data() + 1, length), 0);
          EXPECT_EQ(to[offset + length], std::byte{0});
          EXPECT_TRUE(offset == 0 || to[offset - 1] == std::byte{0});
        }
}

}  // namespace
}  // namespace sextant
