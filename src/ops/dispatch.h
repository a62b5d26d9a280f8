#pragma once
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace sextant {

// How an op writes its result.
//   Replace  out = result
//   Add      out = out + result, after the result is complete
//   Chain    the accumulation of the result starts from out (only where an op says so)
enum class Write { Replace, Add, Chain };

}  // namespace sextant

// Declares the device implementations of an op with the op's own signature; a missing one is a link
// error. Used once, in the op's source file, inside namespace sextant.
#if SXT_HAS_CUDA
#define SXT_BACKENDS(op)    \
  namespace cpu {           \
  decltype(sextant::op) op; \
  }                         \
  namespace cuda {          \
  decltype(sextant::op) op; \
  }
#define SXT_CALL_CUDA(...) cuda::__VA_ARGS__
#else  // no stream of this build is on a GPU
#define SXT_BACKENDS(op)    \
  namespace cpu {           \
  decltype(sextant::op) op; \
  }
#define SXT_CALL_CUDA(...) static_cast<void>(0)
#endif

// Records the op's Work if a trace is recorded, then runs the implementation of the stream's device
// inside an Access. A phantom device runs nothing.
//   SXT_DISPATCH(stream, Work("add").writes(y).reads(a, b).flops(n), add(stream, y, a, b));
#define SXT_DISPATCH(stream, work, ...)                        \
  do {                                                         \
    if ((stream).recorder() != nullptr) (stream).record(work); \
    if ((stream).is_phantom()) {                               \
      (stream).arena().count();                                \
      break;                                                   \
    }                                                          \
    const ::sextant::Access access(stream);                    \
    if ((stream).device().kind == ::sextant::DeviceKind::Cuda) \
      SXT_CALL_CUDA(__VA_ARGS__);                              \
    else                                                       \
      cpu::__VA_ARGS__;                                        \
  } while (false)

// The same for an op that only the CPU has: on a GPU it throws Error(Usage). Settings that need it
// there are refused in config.
#define SXT_CPU_BACKEND(op) \
  namespace cpu {           \
  decltype(sextant::op) op; \
  }
#define SXT_DISPATCH_CPU(stream, work, ...)                                               \
  do {                                                                                    \
    if ((stream).recorder() != nullptr) (stream).record(work);                            \
    if ((stream).is_phantom()) {                                                          \
      (stream).arena().count();                                                           \
      break;                                                                              \
    }                                                                                     \
    SXT_CHECK((stream).device().kind != ::sextant::DeviceKind::Cuda, Usage, #__VA_ARGS__, \
              ": not built for GPUs");                                                    \
    const ::sextant::Access access(stream);                                               \
    cpu::__VA_ARGS__;                                                                     \
  } while (false)
