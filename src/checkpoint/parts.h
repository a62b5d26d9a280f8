#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/range.h"
#include "parallel/param.h"
#include "tensor/shape.h"

namespace sextant {

// Tensors that lie in parts on the ranks of a run, and how they are put together again.

// What a rank says about one tensor of its list, before anything of it is checked.
struct Part {
  std::string name;
  DType dtype = DType::F32;  // means nothing when the range is empty
  Shape shape;               // of the whole, padding included
  int64_t valid_rows = 0;
  Range range;         // elements of the whole that the rank has
  int rank = 0;        // that has it
  int64_t index = 0;   // in the list of that rank
  int64_t offset = 0;  // in that tensor of the list, of the first element
};

// A tensor without memory has no elements. One that is a fragment of the whole has a part for each
// run of elements that lie side by side there, or an empty one.
std::vector<Part> parts_of(const NamedTensor& named, int rank = 0, int64_t index = 0);

// The shape of the whole as it is stored: without the rows of padding. Throws Error(Usage) when
// valid_rows is not between 1 and dim 0, or the range is not within the whole.
std::vector<int64_t> stored_shape(const Part& part);

// The parts as bytes, for another rank to read.
std::vector<std::byte> pack_parts(const std::vector<NamedTensor>& tensors);
std::vector<Part> unpack_parts(std::span<const std::byte> bytes, int rank);

// A tensor whose parts have every stored element once.
struct JoinedTensor {
  std::string name;
  std::vector<int64_t> shape;  // as stored
  DType dtype = DType::F32;
  std::vector<Part> parts;  // in the order of their elements, none empty; without padding
};

// All tensors, in the order in which the parts name them first. Throws Error(Internal) that names
// the tensor when elements are on no rank or on two, or ranks disagree about shape or type, and
// Error(Usage) when one rank has elements twice.
std::vector<JoinedTensor> join_parts(std::span<const Part> parts);

// What one rank adds to a piece of a tensor: `count` elements from `first` on of tensor `index` of
// its list.
struct Ask {
  int64_t index = 0, first = 0, count = 0;
};

// The next elements of a tensor from `begin` on, at least one and at most `most`: what each of
// `ranks` ranks gives. Put one behind the other in rank order they are the elements in order.
std::vector<Ask> next_piece(const JoinedTensor& tensor, int64_t begin, int64_t most, int ranks);

}  // namespace sextant
