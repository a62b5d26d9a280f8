#include "train/outside_memory.h"

#include <fmt/format.h>

#include "base/parse.h"
#include "comm/nccl_world.h"
#include "ops/attention.h"

namespace sextant {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Whether cuDNN, in a build with it, computes the attention of the run.
bool uses_cudnn(const Config& config) {
  if (config.precision.compute == ComputeType::Fp32) return false;
  const ModelConfig& model = config.model;
  const Heads heads{
      1, model.seq, model.heads, model.kv_heads, model.head_dim, model.sliding_window};
  return attention_workspace_bytes(heads, DType::BF16, DeviceKind::Cuda) > 0;
}

// Of one rank.
int64_t nccl_bytes(const OutsideTable& table, const Config& config, const GroupCounts& groups) {
  const int64_t ranks = world_size(config.parallel);
  if (ranks == 1) return table.nccl;
  return table.nccl + kNcclStaging + groups.groups * (table.nccl_group + kNcclStaging) +
         (ranks - 1 + groups.peers) * table.nccl_peer + groups.channels * table.nccl_channel;
}

}  // namespace

OutsideTable assumed_outside() {
  return {.context = 527 * kMiB, .cublas = 11 * kMiB, .cudnn = 9 * kMiB, .nccl = 200 * kMiB};
}

std::vector<OutsidePart> outside_parts(const OutsideTable& table, const Config& config,
                                       const OnGpu& on_gpu) {
  std::vector<OutsidePart> parts = {
      {"context", table.context}, {"kernels", table.kernels}, {"cuBLAS", table.cublas}};
  if (uses_cudnn(config)) parts.push_back({"cuDNN", table.cudnn});
  if (config.run.transport == Transport::Nccl)
    parts.push_back({"NCCL", on_gpu.ranks * nccl_bytes(table, config, on_gpu.groups)});
  return parts;
}

int64_t predicted_outside(const OutsideTable& table, const Config& config, const OnGpu& on_gpu) {
  int64_t bytes = 0;
  for (const OutsidePart& part : outside_parts(table, config, on_gpu)) bytes += part.bytes;
  return bytes;
}

std::string outside_text(const OutsideTable& table, const Config& config, int64_t reserved,
                         const OnGpu& on_gpu) {
  const int64_t outside = predicted_outside(table, config, on_gpu);
  std::string parts;
  for (const OutsidePart& part : outside_parts(table, config, on_gpu))
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", part.name, format_bytes(part.bytes));
  return fmt::format("outside    {} beside the arenas ({}; {}), {} of the GPU in all\n",
                     format_bytes(outside), parts,
                     table.is_measured ? "measured by sextant doctor"
                                       : "assumed: sextant doctor measures it on a GPU",
                     format_bytes(outside + reserved));
}

}  // namespace sextant
