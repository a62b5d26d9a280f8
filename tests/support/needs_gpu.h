#pragma once
#include <gtest/gtest.h>

#include "tensor/gpu.h"

// Skips the rest of a test, with the reason, on a machine or in a build without a GPU. The suite or
// the test has `Cuda` in its name, which gives it the label gpu.
#define SXT_NEEDS_GPU() \
  if (const std::string why = ::sextant::gpu::why_unusable(0); !why.empty()) GTEST_SKIP() << why
