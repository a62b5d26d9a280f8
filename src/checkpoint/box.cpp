#include "checkpoint/box.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace sextant {
namespace {

struct Overlap {
  int64_t begin, end;
};

Overlap overlap(const Box& a, const Box& b, size_t dim) {
  return {std::max(a.start[dim], b.start[dim]),
          std::min(a.start[dim] + a.size[dim], b.start[dim] + b.size[dim])};
}

// A copy between two boxes, with the strides of both buffers.
struct BoxCopy {
  const Box& to_box;
  const Box& from_box;
  std::vector<int64_t> to_stride, from_stride;  // bytes
  size_t solid;  // from this dim on both boxes have the same range, so memory is contiguous

  void run(std::byte* to, const std::byte* from, size_t dim) const {
    const auto [begin, end] = overlap(to_box, from_box, dim);
    to += (begin - to_box.start[dim]) * to_stride[dim];
    from += (begin - from_box.start[dim]) * from_stride[dim];
    if (dim + 1 >= solid) {
      std::memcpy(to, from, static_cast<size_t>((end - begin) * to_stride[dim]));
      return;
    }
    for (int64_t i = begin; i < end; ++i, to += to_stride[dim], from += from_stride[dim])
      run(to, from, dim + 1);
  }
};

std::vector<int64_t> strides(const Box& box, int64_t element_bytes) {
  std::vector<int64_t> out(box.size.size());
  int64_t stride = element_bytes;
  for (size_t dim = out.size(); dim-- > 0; stride *= box.size[dim]) out[dim] = stride;
  return out;
}

}  // namespace

Box whole_box(std::span<const int64_t> shape) {
  return {std::vector<int64_t>(shape.size(), 0), {shape.begin(), shape.end()}};
}

int64_t elements_of(std::span<const int64_t> shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

bool is_overlapping(const Box& a, const Box& b) {
  for (size_t dim = 0; dim < a.size.size(); ++dim) {
    const auto [begin, end] = overlap(a, b, dim);
    if (begin >= end) return false;
  }
  return true;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string out;
  for (const int64_t size : shape) out += (out.empty() ? "" : ", ") + std::to_string(size);
  return "[" + out + "]";
}

void copy_box(std::span<std::byte> to, const Box& to_box, std::span<const std::byte> from,
              const Box& from_box, int64_t element_bytes) {
  SXT_CHECK(static_cast<int64_t>(to.size()) == elements_of(to_box.size) * element_bytes &&
                static_cast<int64_t>(from.size()) == elements_of(from_box.size) * element_bytes &&
                to_box.size.size() == from_box.size.size(),
            Internal, "copy of ", from.size(), " bytes of ", shape_text(from_box.size), " into ",
            to.size(), " of ", shape_text(to_box.size));
  if (!is_overlapping(to_box, from_box)) return;
  size_t solid = to_box.size.size();
  while (solid > 0 && to_box.start[solid - 1] == from_box.start[solid - 1] &&
         to_box.size[solid - 1] == from_box.size[solid - 1])
    --solid;
  if (solid == 0) {
    std::memcpy(to.data(), from.data(), to.size());
    return;
  }
  const BoxCopy copy{to_box, from_box, strides(to_box, element_bytes),
                     strides(from_box, element_bytes), solid};
  copy.run(to.data(), from.data(), 0);
}

}  // namespace sextant
