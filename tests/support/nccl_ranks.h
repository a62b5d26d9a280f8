#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "comm/nccl_world.h"
#include "comm/run_ranks.h"
#include "support/needs_gpu.h"

namespace sextant {

// Ranks as threads that share GPU 0 over NCCL.
inline void run_nccl_ranks(int ranks, const std::function<void(Communicator&)>& f,
                           NcclOptions options = {}) {
  options.sharing = GpuSharing::Allowed;
  const SystemClock clock;
  ThreadWorld(ranks, clock, {.timeout_s = options.timeout_s}).run([&](Communicator& host) {
    NcclWorld world(host, options);
    f(world.world());
  });
}

// Before the first use of CUDA and NCCL in a test program.
inline void let_ranks_share_gpus() {
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  ::setenv("NCCL_MAX_CTAS", "4", 0);
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

}  // namespace sextant

// Skips the rest of a test, with the reason, without a GPU or a NCCL whose ranks can share one.
#define SXT_NEEDS_NCCL()                                                          \
  ::sextant::let_ranks_share_gpus();                                              \
  SXT_NEEDS_GPU();                                                                \
  if (const std::string why = ::sextant::NcclWorld::why_unusable(); !why.empty()) \
    GTEST_SKIP() << why;                                                          \
  if (::sextant::NcclWorld::version() < ::sextant::kFirstNcclThatShares)          \
  GTEST_SKIP() << "NCCL " << ::sextant::NcclWorld::version()                      \
               << " refuses ranks that share a GPU: 2.30 or later does not (LD_LIBRARY_PATH)"
