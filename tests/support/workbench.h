#pragma once
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/random.h"
#include "tensor/convert.h"
#include "tensor/copy.h"
#include "tensor/stream.h"

namespace sextant {

// An arena and a stream for one test, and tensors to and from plain vectors.
class Workbench {
 public:
  explicit Workbench(int threads = 1, DeviceKind device = DeviceKind::Cpu,
                     int64_t limit = int64_t{256} << 20)
      : arena_(Device{device}, limit), stream_(arena_, threads) {}

  Stream& stream() { return stream_; }
  Arena& arena() { return arena_; }

  template <class T>
  Tensor empty(const Shape& shape) {
    return arena_.allocate(Category::Activations, kDTypeOf<T>, shape);
  }
  template <class T>
  Tensor make(const Shape& shape, const std::vector<T>& values) {
    Tensor tensor = empty<T>(shape);
    copy_from_host<T>(stream_, tensor, values);
    return tensor;
  }
  // Normal values named by `name`; the f32 and f64 tensors of one name hold the same numbers, and
  // those of a narrow type their roundings.
  template <class T>
  Tensor random(const Shape& shape, std::string_view name, double scale = 1, double offset = 0) {
    std::vector<T> values(static_cast<size_t>(shape.elements()));
    const Random random(1, name);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<float>(offset + scale * random.normal(i));
      if constexpr (std::is_arithmetic_v<T>)
        values[i] = static_cast<T>(value);
      else
        values[i] = round_nearest<T>(value);
    }
    return make<T>(shape, values);
  }
  template <class T>
  std::vector<T> read(const Tensor& tensor) {
    std::vector<T> values(static_cast<size_t>(tensor.elements()));
    copy_to_host<T>(stream_, values, tensor);
    return values;
  }
  std::vector<std::byte> bytes(const Tensor& tensor) {
    std::vector<std::byte> values(static_cast<size_t>(tensor.bytes()));
    copy_bytes_to_host(stream_, values, tensor);
    return values;
  }

 private:
  Arena arena_;
  Stream stream_;
};

}  // namespace sextant
