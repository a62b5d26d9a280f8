#include "model/statistics.h"

#include <bit>
#include <cmath>

#include "tensor/convert.h"
#include "tensor/copy.h"

namespace sextant {
namespace {

// So many values with no bit beyond f16 are no chance.
constexpr int64_t kEnough = 16;
constexpr uint32_t kBitsBeyondF16 = (1U << 13U) - 1;

std::vector<float> on_host(Stream& stream, const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  copy_floats_to_host(stream, values, tensor);
  return values;
}

}  // namespace

std::vector<std::string> Statistics::narrow() const {
  std::vector<std::string> names;
  for (const auto& [name, count] : counts_)
    if (count.is_narrow_type || (count.values >= kEnough && count.coarse == count.values))
      names.push_back(name);
  return names;
}

// On the host: a mistaken rank takes no more memory than the others.
void Statistics::round(Stream& stream, Tensor& statistic) const {
  if (!is_rounded() || !statistic) return;
  std::vector<float> values = on_host(stream, statistic);
  for (float& value : values) value = widen(round_nearest<bf16>(value));
  copy_floats_from_host(stream, statistic, values);
}

void Statistics::read(Stream& stream, const std::string& weight, const Tensor& statistic) {
  if (!is_watched_ || !statistic || statistic.dtype() == DType::F64) return;
  Count& count = counts_[weight];
  count.is_narrow_type = count.is_narrow_type || statistic.dtype() != DType::F32;
  for (const float value : on_host(stream, statistic)) {
    if (value == 0 || !std::isfinite(value)) continue;  // such as of a query without keys
    ++count.values;
    count.coarse += (std::bit_cast<uint32_t>(value) & kBitsBeyondF16) == 0;
  }
}

}  // namespace sextant
