#pragma once

// Marks a function that kernels call too; nothing where the source is not compiled by nvcc.
#if defined(__CUDACC__)
#define SXT_HOST_DEVICE __host__ __device__
#else
#define SXT_HOST_DEVICE
#endif
