#include "tensor/copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/convert.h"

#include "tensor/gpu.h"

namespace sextant {
namespace {

constexpr int64_t kGrain = int64_t{1} << 20;

void copy_parallel(Stream& stream, std::byte* to, const std::byte* from, int64_t bytes) {
  stream.team().for_pieces(bytes, kGrain, [&](int64_t begin, int64_t end, int) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

// Checks and records a copy to the host; true on a phantom device, where that is all.
bool is_copied_by_record(Stream& stream, std::span<std::byte> to, const Tensor& from) {
  SXT_CHECK(static_cast<int64_t>(to.size()) == from.bytes(), Usage, "copy: a tensor ", from.shape(),
            " of ", from.bytes(), " bytes into ", to.size());
  if (stream.recorder() != nullptr) stream.record(Work("copy_to_host").reads(from));
  if (stream.is_phantom()) std::ranges::fill(to, std::byte{0});
  return stream.is_phantom();
}

}  // namespace

void copy_bytes_from_host(Stream& stream, Tensor& to, std::span<const std::byte> from) {
  if (stream.recorder() != nullptr) stream.record(Work("copy_from_host").writes(to));
  if (stream.is_phantom()) return;
  SXT_CHECK(static_cast<int64_t>(from.size()) == to.bytes(), Usage, "copy: ", from.size(),
            " bytes into a tensor ", to.shape(), " of ", to.bytes());
  const Access access(stream);
  if (stream.is_gpu()) return stream.staging().upload(to.raw(), from);
  copy_parallel(stream, to.raw(), from.data(), to.bytes());
}

void copy_bytes_to_host(Stream& stream, std::span<std::byte> to, const Tensor& from) {
  if (is_copied_by_record(stream, to, from)) return;
  const Access access(stream);
  if (stream.is_gpu()) return stream.staging().download(to, from.raw());
  copy_parallel(stream, to.data(), from.raw(), from.bytes());
}

void copy_floats_from_host(Stream& stream, Tensor& to, std::span<const float> from) {
  if (to.dtype() == DType::F32) return copy_from_host<float>(stream, to, from);
  std::vector<std::byte> converted(from.size() * static_cast<size_t>(size_of(to.dtype())));
  if (!stream.is_phantom())
    convert(to.dtype(), converted.data(), DType::F32, std::as_bytes(from).data(),
            static_cast<int64_t>(from.size()));
  copy_bytes_from_host(stream, to, converted);
}

void copy_floats_to_host(Stream& stream, std::span<float> to, const Tensor& from) {
  if (from.dtype() == DType::F32) return copy_to_host<float>(stream, to, from);
  std::vector<std::byte> narrow(to.size() * static_cast<size_t>(size_of(from.dtype())));
  copy_bytes_to_host(stream, narrow, from);
  convert(DType::F32, std::as_writable_bytes(to).data(), from.dtype(), narrow.data(),
          static_cast<int64_t>(to.size()));
}

void copy_bytes_to_host_later(Stream& stream, std::span<std::byte> to, const Tensor& from) {
  if (!stream.is_gpu()) return copy_bytes_to_host(stream, to, from);
  if (is_copied_by_record(stream, to, from)) return;
  const Access access(stream);
  stream.staging().download_later(to, from.raw());
}

void copy(Stream& stream, Tensor& to, const Tensor& from) {
  SXT_CHECK(to.dtype() == from.dtype() && to.elements() == from.elements(), Usage,
            "copy: ", name_of(from.dtype()), " ", from.shape(), " into ", name_of(to.dtype()), " ",
            to.shape());
  if (stream.recorder() != nullptr) stream.record(Work("copy").writes(to).reads(from));
  if (stream.is_phantom()) return;
  const Access access(stream);
  if (stream.is_gpu()) return stream.queue().copy(to.raw(), from.raw(), from.bytes());
  copy_parallel(stream, to.raw(), from.raw(), from.bytes());
}

void fill_zero(Stream& stream, Tensor& to) {
  if (stream.recorder() != nullptr) stream.record(Work("fill_zero").writes(to));
  if (stream.is_phantom()) return;
  const Access access(stream);
  if (stream.is_gpu()) return stream.queue().fill_zero(to.raw(), to.bytes());
  stream.team().for_pieces(to.bytes(), kGrain, [&](int64_t begin, int64_t end, int) {
    std::memset(to.raw() + begin, 0, static_cast<size_t>(end - begin));
  });
}

}  // namespace sextant
