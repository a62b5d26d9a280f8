#include "plan/constants.h"

namespace sextant {
namespace {

using C = Constants;
constexpr ConstantInfo kTable[] = {
    {"gemm", &C::gemm, 0.6, 1.0, "", "share of the best GEMM rate that a training step keeps"},
    {"gemm_air", &C::gemm_air, 0.5, 1.0, "",
     "the same on Blackwell boards of eight, whose power limit is lower"},
    {"gemm_memory", &C::gemm_memory, 0, 2, "",
     "operand traffic of a GEMM that is not hidden behind its arithmetic"},
    {"fp8", &C::fp8, 0.4, 1.0, "", "the same share for fp8 with one scale per tensor, and MXFP8"},
    {"fp8_row", &C::fp8_row, 0.2, 0.9, "", "for fp8 with one scale per row"},
    {"fp4", &C::fp4, 0.2, 0.9, "", "for NVFP4"},
    {"grouped", &C::grouped, 0.3, 1.0, "", "rate of a grouped GEMM against a plain one"},
    {"apart", &C::apart, 0.2, 1.0, "", "rate of narrow experts as GEMMs of their own"},
    {"power", &C::power, 0, 1, "", "rate falls as (power / design power) to this exponent"},
    {"flash1", &C::flash1, 0.1, 0.6, "", "FlashAttention-1: share of the peak, forward"},
    {"flash2", &C::flash2, 0.2, 0.75, "", "FlashAttention-2 on Ampere"},
    {"flash_new", &C::flash_new, 0.2, 0.8, "", "fused attention on Hopper and Blackwell"},
    {"score_passes", &C::score_passes, 1, 6, "",
     "traffic of unfused softmax and masking against a fused one"},
    {"memory_rate", &C::memory_rate, 0.5, 0.95, "",
     "share of the memory rate of element-wise work"},
    {"eager_norm", &C::eager_norm, 10, 120, "",
     "times a hidden state is read or written by an unfused RMSNorm, forward and backward"},
    {"launch", &C::launch, 0, 3e-5, "s", "gap between two kernels"},
    {"link", &C::link, 0.3, 1.0, "", "share of the NVLink rate that collectives reach in training"},
    {"nic", &C::nic, 0.65, 1.0, "", "share of the network rate"},
    {"far", &C::far, 0.2, 1.0, "",
     "of that, what rings beyond a leaf switch get where routes are static"},
    {"latency", &C::latency, 1, 4, "", "hop latency in training against NCCL's tuning table"},
    {"overlap", &C::overlap, 0, 0.6, "",
     "share of the shorter of two overlapping activities that still costs time"},
    {"to_all", &C::to_all, 0.2, 1.0, "", "share of the link rate that all-to-all reaches"},
    {"to_all_far", &C::to_all_far, 0.7, 1.0, "", "the same for the network rate"},
    {"fragments", &C::fragments, 0, 0.2, "", "memory lost between allocations", true},
    {"reserve", &C::reserve, 0.5, 8, "GiB", "CUDA context, NCCL buffers, library workspaces", true},
};
static_assert(std::size(kTable) <= kMostConstants);

}  // namespace

std::span<const ConstantInfo> constant_table() {
  return kTable;
}

}  // namespace sextant
