#include "ops/sum.h"

#include "ops/cpu/packs.h"

namespace sextant::cpu {
namespace {

// Sum over [0, count) of term(element) in f64, in eight chains.
template <class T, class Term>
double block_sum(const T* x, int64_t count, Term term) {
  constexpr int kChains = 8;
  double sums[kChains] = {};
  int64_t i = 0;
  for (; i + kChains <= count; i += kChains)
    for (int chain = 0; chain < kChains; ++chain)
      sums[chain] += term(static_cast<double>(value_of(x[i + chain])));
  for (; i < count; ++i) sums[i % kChains] += term(static_cast<double>(value_of(x[i])));
  for (int width = kChains / 2; width > 0; width /= 2)
    for (int chain = 0; chain < width; ++chain) sums[chain] += sums[chain + width];
  return sums[0];
}

// Each block's sum lies in the scratch; they are added in block order.
template <class Term>
double sum_blocks(Stream& stream, const Tensor& x, Term term) {
  const int64_t count = x.elements(), blocks = (count + kSumBlock - 1) / kSumBlock;
  double* partial = reinterpret_cast<double*>(stream.shared_scratch().data());
  with_float(x.dtype(), [&]<class T>(T) {
    const T* values = x.data<T>();
    stream.team().for_pieces(count, kSumBlock, [&](int64_t begin, int64_t end, int) {
      partial[begin / kSumBlock] = block_sum(values + begin, end - begin, term);
    });
  });
  double total = 0;
  for (int64_t block = 0; block < blocks; ++block) total += partial[block];
  return total;
}

}  // namespace

void sum(Stream& stream, Tensor& out, const Tensor& x, Write write) {
  const double total = sum_blocks(stream, x, [](double value) { return value; });
  double& result = out.data<double>()[0];
  result = write == Write::Add ? result + total : total;
}

void sum_of_squares(Stream& stream, Tensor& out, std::span<const Tensor> x) {
  double& result = out.data<double>()[0];
  for (size_t i = 0; i < x.size(); ++i) {
    const double total = sum_blocks(stream, x[i], [](double value) { return value * value; });
    result = i == 0 ? total : result + total;
  }
  if (x.empty()) result = 0;
}

}  // namespace sextant::cpu
