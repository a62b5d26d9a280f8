#include <cstdlib>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/host_name.h"
#include "base/random.h"
#include "comm/mismatch.h"
#include "comm/nccl/communicator.h"

namespace sextant {
namespace {

using nccl::library;

// Ranks with the same GPU, such as "0, 1", or "" if each has its own. Collective.
std::string ranks_that_share(Communicator& host, int gpu) {
  const auto own = static_cast<int64_t>(stable_hash(host_name() + ' ' + gpu::identity(gpu)));
  const auto ranks = static_cast<size_t>(host.size());
  std::vector<int64_t> all(host.rank() == 0 ? ranks : 0);
  const std::vector<int64_t> sizes(ranks, sizeof own);
  host.control().gather(std::as_writable_bytes(std::span(all)), std::as_bytes(std::span(&own, 1)),
                        sizes, 0);
  std::map<int64_t, std::vector<int>> by_gpu;
  for (size_t rank = 0; rank < all.size(); ++rank)
    by_gpu[all[rank]].push_back(static_cast<int>(rank));
  std::string shared;
  for (const auto& [hash, members] : by_gpu)
    if (members.size() > 1 && shared.empty())
      shared = list_ranks(members, [](int rank) { return rank; });
  return host.control().broadcast_text(shared, 0);
}

CallOrder order_of(Communicator& host, const NcclOptions& options) {
  const std::string shared = ranks_that_share(host, options.gpu);
  if (!shared.empty()) {
    SXT_CHECK(
        options.sharing == GpuSharing::Allowed, Config, "ranks ", shared,
        " have the same GPU: run.transport = nccl needs one for each rank; NCCL 2.30 lets ranks "
        "share a GPU when ",
        kShareVariable, "=1 is set");
    SXT_CHECK(library().version >= kFirstNcclThatShares, Config, kShareVariable,
              "=1: ", nccl::name_of_version(library().version), " refuses ranks that share a GPU; ",
              nccl::name_of_version(kFirstNcclThatShares), " or later allows it");
  }
  if (options.order != CallOrder::Automatic) return options.order;
  return shared.empty() ? CallOrder::Device : CallOrder::Host;
}

// Collective: rank 0 makes the id.
nccl::Connection* connect(nccl::Rank& rank, Communicator& host) {
  if (host.size() == 1) return nullptr;
  ncclUniqueId id{};
  if (host.rank() == 0) id = nccl::Connection::make_id();
  host.control().broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  return &nccl::Connection::create(rank, host.name(), id, host.size(), host.rank());
}

}  // namespace

struct NcclWorld::State {
  State(Communicator& host, const NcclOptions& options)
      : rank(host, options, order_of(host, options)),
        world(rank, host, nullptr, connect(rank, host)) {}

  nccl::Rank rank;
  nccl::NcclCommunicator world;
};

std::string NcclWorld::why_unusable() {
  return library().problem;
}

int NcclWorld::version() {
  return library().problem.empty() ? library().version : 0;
}

NcclWorld::NcclWorld(Communicator& host, const NcclOptions& options) {
  SXT_CHECK(why_unusable().empty(), Config, why_unusable());
  state_ = std::make_unique<State>(host, options);
}

NcclWorld::~NcclWorld() = default;

Communicator& NcclWorld::world() {
  return state_->world;
}

void NcclWorld::await_issued() {
  state_->rank.progress_thread().wait_idle();
}

}  // namespace sextant
