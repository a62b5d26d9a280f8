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

// Tensors sharded over the ranks of a run, and how to assemble them.

// A rank's description of its part of a tensor, not checked yet.
struct Part {
  std::string name;
  DType dtype = DType::F32;  // ignored when the range is empty
  Shape shape;               // of the whole, padding included
  int64_t valid_rows = 0;
  Range range;         // elements of the whole that the rank has
  int rank = 0;        // that has it
  int64_t index = 0;   // of the tensor in that rank's list
  int64_t offset = 0;  // of the first element in that tensor
};

// The parts of a tensor: one per run of elements that is contiguous in the whole, or a single empty
// one. A tensor without memory has no elements.
std::vector<Part> parts_of(const NamedTensor& named, int rank = 0, int64_t index = 0);

// The shape of the whole as stored, without padding rows. Throws Error(Usage) when valid_rows is
// not between 1 and dim 0, or the range is not within the whole.
std::vector<int64_t> stored_shape(const Part& part);

// Serializes the parts for another rank.
std::vector<std::byte> pack_parts(const std::vector<NamedTensor>& tensors);
std::vector<Part> unpack_parts(std::span<const std::byte> bytes, int rank);

// A tensor whose parts together contain every stored element once.
struct JoinedTensor {
  std::string name;
  std::vector<int64_t> shape;  // as stored
  DType dtype = DType::F32;
  std::vector<Part> parts;  // sorted by element, none empty; without padding
};

// All tensors, in the order in which they first appear in the parts. Throws Error(Internal) that
// names the tensor when elements are on no rank or on two, or when ranks disagree about shape or
// type, and Error(Usage) when one rank has elements twice.
std::vector<JoinedTensor> join_parts(std::span<const Part> parts);

// One rank's contribution to a piece of a tensor: `count` elements from `first` on of tensor
// `index` of its list.
struct Ask {
  int64_t index = 0, first = 0, count = 0;
};

// The contributions of `ranks` ranks to the next piece of a tensor: from element `begin` on, at
// least one and at most `most` elements. Concatenated in rank order they are the piece.
std::vector<Ask> next_piece(const JoinedTensor& tensor, int64_t begin, int64_t most, int ranks);

}  // namespace sextant
