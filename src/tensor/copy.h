#pragma once
#include <span>

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant {

// Copies between tensors and host memory. Host memory may be reused when a call returns; a copy to
// the host waits for the operations before it. With a phantom device host memory is not read (it
// may not exist), and copies to the host give zeros.
void copy_bytes_from_host(Stream& stream, Tensor& to, std::span<const std::byte> from);
void copy_bytes_to_host(Stream& stream, std::span<std::byte> to, const Tensor& from);
// Does not wait: `to` has the bytes after the next Stream::synchronize or check_data, until which
// it must exist. Several of these share one wait.
void copy_bytes_to_host_later(Stream& stream, std::span<std::byte> to, const Tensor& from);
void copy(Stream& stream, Tensor& to, const Tensor& from);  // same type and number of elements
void fill_zero(Stream& stream, Tensor& to);

// The same for floats on the host and a tensor of any floating type: widened, or rounded to
// nearest.
void copy_floats_from_host(Stream& stream, Tensor& to, std::span<const float> from);
void copy_floats_to_host(Stream& stream, std::span<float> to, const Tensor& from);

template <class T>
void copy_from_host(Stream& stream, Tensor& to, std::span<const T> from) {
  SXT_CHECK(to.dtype() == kDTypeOf<T>, Usage, "copy: ", name_of(kDTypeOf<T>), " into a ",
            name_of(to.dtype()), " tensor");
  copy_bytes_from_host(stream, to, std::as_bytes(from));
}

template <class T>
void copy_to_host(Stream& stream, std::span<T> to, const Tensor& from) {
  SXT_CHECK(from.dtype() == kDTypeOf<T>, Usage, "copy: a ", name_of(from.dtype()), " tensor into ",
            name_of(kDTypeOf<T>));
  copy_bytes_to_host(stream, std::as_writable_bytes(to), from);
}

template <class T>
void copy_to_host_later(Stream& stream, std::span<T> to, const Tensor& from) {
  SXT_CHECK(from.dtype() == kDTypeOf<T>, Usage, "copy: a ", name_of(from.dtype()), " tensor into ",
            name_of(kDTypeOf<T>));
  copy_bytes_to_host_later(stream, std::as_writable_bytes(to), from);
}

}  // namespace sextant
