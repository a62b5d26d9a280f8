#include "train/offload.h"

#include <filesystem>
#include <utility>

namespace sextant {

std::unique_ptr<HostArena> make_offload(const Config& config,
                                        std::shared_ptr<const ArenaPlan> phantom_plan,
                                        const Stream& stream, const Preflight& preflight,
                                        int rank) {
  if (config.memory.offload == Offload::None) return nullptr;
  if (stream.is_phantom()) return std::make_unique<HostArena>(std::move(phantom_plan));
  const std::shared_ptr<const ArenaPlan>& plan = preflight.host_plans[static_cast<size_t>(rank)];
  if (plan->reserved == 0) return nullptr;  // this rank keeps nothing
  if (stream.is_gpu()) return std::make_unique<HostArena>(stream.device().index, plan);
  const std::string& directory = config.memory.offload_dir;
  return std::make_unique<HostArena>(
      directory.empty() ? std::filesystem::temp_directory_path().string() : directory, plan);
}

}  // namespace sextant
