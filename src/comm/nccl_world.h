#pragma once
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace sextant {

// Staging memory of a group on the GPU, outside of every arena, allocated with the group:
// reductions in rank order receive into it.
inline constexpr int64_t kNcclStaging = int64_t{8} << 20;

// Ranks: sums in rank order, with the bits of all other transports. Library: NCCL's own sums, whose
// bits depend on the number of ranks, the message size and the topology.
enum class SumOrder : uint8_t { Ranks, Library };

// The variable of NCCL with which a user lets several ranks have the same GPU, and whether they
// may.
inline constexpr const char* kShareVariable = "NCCL_MULTI_RANK_GPU_ENABLE";
inline constexpr int kFirstNcclThatShares = 23000;  // the version that allows it
enum class GpuSharing : uint8_t { Refused, Allowed };

// What orders a call with the kernels around it. Device: events, so that the host goes on at once.
// Host: it waits for them. Chosen by itself: kernels of NCCL wait for those of peers, which on one
// GPU could be queued behind what waits for them, so ranks that share a GPU need Host.
enum class CallOrder : uint8_t { Automatic, Device, Host };

struct NcclOptions {
  int gpu = 0;             // of this rank
  double timeout_s = 600;  // of every wait for a peer
  SumOrder sums = SumOrder::Ranks;
  GpuSharing sharing = GpuSharing::Refused;
  CallOrder order = CallOrder::Automatic;
};

// NCCL for one rank: tensors move between GPUs by NCCL, while host values, the agreement on calls,
// failures and hang reports go over `host`, any other transport whose ranks are the same.
//
// Communicators are non-blocking. A thread watches them and what was issued: on an error, a failure
// of another rank or a timeout it aborts them all, and calls and waits for the stream throw
// Error(Peer).
class NcclWorld {
 public:
  // "" if NCCL can be used; otherwise why not: this build has none, the library cannot be loaded.
  static std::string why_unusable();
  // The version of the library that is loaded, such as 23007; 0 if there is none.
  static int version();

  // Collective over `host`, which must outlive this. Error(Config) when ranks would share a GPU and
  // must not or this library cannot.
  NcclWorld(Communicator& host, const NcclOptions& options);
  // Finalizes all communicators, which is collective too, or aborts them after a failure.
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  // Streams that it is used with must not outlive this.
  Communicator& world();
  // Returns when the collectives that were started are issued: from then on the rank's part of
  // `host` is idle, until its next call.
  void await_issued();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sextant
