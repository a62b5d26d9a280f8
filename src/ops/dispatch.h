#pragma once
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant {

// How an op's result meets what its output holds.
//   Replace  out = result
//   Add      out = out + result, the result finished first
//   Chain    the sum that makes the result goes on from out (only where an op says so)
enum class Write { Replace, Add, Chain };

}  // namespace sextant

// Declares the device implementations of an op with the op's own signature; a missing one is a link
// error. Used once, in the op's source file, inside namespace sextant.
#define SXT_BACKENDS(op)    \
  namespace cpu {           \
  decltype(sextant::op) op; \
  }

// Runs the implementation of the stream's device, its memory open meanwhile.
#define SXT_DISPATCH(stream, ...)           \
  do {                                      \
    const ::sextant::Access access(stream); \
    cpu::__VA_ARGS__;                       \
  } while (false)
