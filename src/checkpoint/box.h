#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// A part of a global tensor: along dim d the indices start[d] ... start[d] + size[d] - 1.
struct Box {
  std::vector<int64_t> start, size;
  bool operator==(const Box&) const = default;
};

Box whole_box(std::span<const int64_t> shape);
int64_t elements_of(std::span<const int64_t> shape);  // 1 without dims
bool is_overlapping(const Box& a, const Box& b);
std::string shape_text(std::span<const int64_t> shape);  // [2, 3]

// Copies the elements that both boxes have. Each buffer holds its own box, contiguous, row-major.
void copy_box(std::span<std::byte> to, const Box& to_box, std::span<const std::byte> from,
              const Box& from_box, int64_t element_bytes);

}  // namespace sextant
