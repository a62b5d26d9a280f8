#include "checkpoint/parts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "base/error.h"
#include "checkpoint/box.h"

namespace sextant {
namespace {

// The fixed-size header of a packed part; the name follows it.
struct Packed {
  int64_t name_bytes, dtype, valid_rows, begin, end, index, offset, dims;
  std::array<int64_t, Shape::kMaxDims> sizes;
};

std::span<const std::byte> take(std::span<const std::byte>& bytes, int64_t count) {
  SXT_CHECK(0 <= count && count <= static_cast<int64_t>(bytes.size()), Internal,
            "checkpoint: a list of parts ends early: ", bytes.size(), " of ", count, " bytes");
  const std::span<const std::byte> taken = bytes.first(static_cast<size_t>(count));
  bytes = bytes.subspan(static_cast<size_t>(count));
  return taken;
}

// "elements 3 ... 5"
std::string range_text(int64_t begin, int64_t end) {
  return concat("elements ", begin, " ... ", end - 1);
}

std::string shape_text(const Part& part) {
  return concat(part.shape, " with ", part.valid_rows, " valid rows on rank ", part.rank);
}

void check_cover(const JoinedTensor& tensor) {
  const int64_t total = elements_of(tensor.shape);
  int64_t covered = 0;
  const Part* before = nullptr;
  for (const Part& part : tensor.parts) {
    const Range& range = part.range;
    SXT_CHECK(range.begin <= covered, Internal, "tensor ", tensor.name, ": ",
              range_text(covered, range.begin), " of ", total, " are on no rank");
    if (range.begin < covered) {
      const std::string twice = range_text(range.begin, std::min(covered, range.end));
      SXT_CHECK(before->rank != part.rank, Usage, "tensor ", tensor.name,
                " is written twice: rank ", part.rank, " has ", twice, " in two parts");
      SXT_FAIL(Internal, "tensor ", tensor.name, ": ", twice, " are on rank ", before->rank,
               " and on rank ", part.rank);
    }
    covered = range.end;
    before = &part;
  }
  SXT_CHECK(covered == total, Internal, "tensor ", tensor.name, ": ", range_text(covered, total),
            " of ", total, " are on no rank");
}

}  // namespace

std::vector<Part> parts_of(const NamedTensor& named, int rank, int64_t index) {
  const int64_t elements = named.tensor ? named.tensor.elements() : 0;
  Part part{named.name,
            named.tensor.dtype(),
            named.shape.dims() > 0 ? named.shape : named.tensor.shape(),
            named.valid_rows,
            {named.first, named.first + elements},
            rank,
            index};
  if (named.fragment.rows.empty()) return {part};
  std::vector<Part> parts;
  named.fragment.for_each_run(part.range, [&](const Range& run, int64_t first) {
    parts.push_back(part);
    parts.back().range = {first, first + run.size()};
    parts.back().offset = run.begin - named.first;
  });
  part.range = {};
  if (parts.empty()) parts.push_back(part);
  return parts;
}

std::vector<int64_t> stored_shape(const Part& part) {
  std::vector<int64_t> shape(part.shape.sizes().begin(), part.shape.sizes().end());
  const int64_t elements = part.shape.elements();
  SXT_CHECK(0 <= part.range.begin && part.range.end <= elements, Usage, "tensor ", part.name, " ",
            part.shape, " has ", elements, " elements, rank ", part.rank, " says that it has ",
            range_text(part.range.begin, part.range.end));
  if (shape.empty()) return shape;
  SXT_CHECK(1 <= part.valid_rows && part.valid_rows <= shape[0], Usage, "tensor ", part.name, " ",
            part.shape, " has valid_rows ", part.valid_rows, "; 1 to ", shape[0], " is right");
  shape[0] = part.valid_rows;
  return shape;
}

std::vector<std::byte> pack_parts(const std::vector<NamedTensor>& tensors) {
  std::vector<std::byte> bytes;
  const auto add = [&](std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
  };
  const auto add_part = [&](const Part& part) {
    Packed packed{static_cast<int64_t>(part.name.size()),
                  static_cast<int64_t>(part.dtype),
                  part.valid_rows,
                  part.range.begin,
                  part.range.end,
                  part.index,
                  part.offset,
                  part.shape.dims(),
                  {}};
    std::copy(part.shape.sizes().begin(), part.shape.sizes().end(), packed.sizes.begin());
    add(std::as_bytes(std::span(&packed, 1)));
    add(std::as_bytes(std::span(part.name)));
  };
  for (size_t i = 0; i < tensors.size(); ++i)
    for (const Part& part : parts_of(tensors[i], 0, static_cast<int64_t>(i))) add_part(part);
  return bytes;
}

std::vector<Part> unpack_parts(std::span<const std::byte> bytes, int rank) {
  std::vector<Part> parts;
  while (!bytes.empty()) {
    Packed packed;
    std::memcpy(&packed, take(bytes, sizeof(packed)).data(), sizeof(packed));
    SXT_CHECK(0 <= packed.dims && packed.dims <= Shape::kMaxDims, Internal,
              "checkpoint: a part has ", packed.dims, " dims");
    const std::span<const std::byte> name = take(bytes, packed.name_bytes);
    parts.push_back({std::string(reinterpret_cast<const char*>(name.data()), name.size()),
                     static_cast<DType>(packed.dtype),
                     Shape(std::span(packed.sizes).first(static_cast<size_t>(packed.dims))),
                     packed.valid_rows,
                     {packed.begin, packed.end},
                     rank,
                     packed.index,
                     packed.offset});
  }
  return parts;
}

std::vector<JoinedTensor> join_parts(std::span<const Part> parts) {
  std::vector<JoinedTensor> joined;
  std::map<std::string_view, size_t> index;
  std::vector<const Part*> first;  // of each tensor
  for (const Part& part : parts) {
    const auto [found, is_new] = index.emplace(part.name, joined.size());
    const std::vector<int64_t> stored = stored_shape(part);
    if (is_new) {
      joined.push_back({part.name, stored, part.dtype, {}});
      first.push_back(&part);
    }
    JoinedTensor& tensor = joined[found->second];
    const Part& other = *first[found->second];
    SXT_CHECK(part.shape == other.shape && part.valid_rows == other.valid_rows, Internal, "tensor ",
              part.name, " is ", shape_text(other), ", ", shape_text(part));
    const Range range = overlap(part.range, {0, elements_of(stored)});
    if (range.size() == 0) continue;
    if (tensor.parts.empty()) tensor.dtype = part.dtype;
    SXT_CHECK(part.dtype == tensor.dtype, Internal, "tensor ", part.name, " is ",
              name_of(tensor.dtype), " on rank ", tensor.parts[0].rank, ", ", name_of(part.dtype),
              " on rank ", part.rank);
    tensor.parts.push_back(part);
    tensor.parts.back().offset += range.begin - part.range.begin;
    tensor.parts.back().range = range;
  }
  for (JoinedTensor& tensor : joined) {
    std::stable_sort(tensor.parts.begin(), tensor.parts.end(),
                     [](const Part& a, const Part& b) { return a.range.begin < b.range.begin; });
    check_cover(tensor);
  }
  return joined;
}

std::vector<Ask> next_piece(const JoinedTensor& tensor, int64_t begin, int64_t most, int ranks) {
  std::vector<Ask> asks(static_cast<size_t>(ranks));
  auto part = std::upper_bound(
      tensor.parts.begin(), tensor.parts.end(), begin,
      [](int64_t element, const Part& candidate) { return element < candidate.range.end; });
  // A piece has at most one part of each rank, in rank order; it ends
  // before a part that would break this.
  for (int last = -1; part != tensor.parts.end() && part->rank > last; ++part) {
    const Range taken = overlap(part->range, {begin, begin + most});
    if (taken.size() == 0) break;
    asks[static_cast<size_t>(part->rank)] = {
        part->index, part->offset + taken.begin - part->range.begin, taken.size()};
    last = part->rank;
  }
  return asks;
}

}  // namespace sextant
