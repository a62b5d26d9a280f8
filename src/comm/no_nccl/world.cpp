#include "base/error.h"
#include "comm/nccl_world.h"

namespace sextant {

struct NcclWorld::State {};

std::string NcclWorld::why_unusable() {
  return "this build has no NCCL (nccl.h was not found beside CUDA): install libnccl-dev and build "
         "again";
}

int NcclWorld::version() {
  return 0;
}

NcclWorld::NcclWorld(Communicator&, const NcclOptions&) {
  throw Error(Fault::Config, why_unusable());
}

NcclWorld::~NcclWorld() = default;

Communicator& NcclWorld::world() {
  SXT_FAIL(Internal, "a world without NCCL");
}

void NcclWorld::await_issued() {}

}  // namespace sextant
