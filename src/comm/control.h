#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "comm/call.h"

namespace sextant {

// Blocking collectives of host values (counts, losses, digests, texts) among the ranks of a group.
// Separate from Communicator, so that a transport of device memory need not handle host memory.
// All ranks make the same calls in the same order. Counted as control traffic.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;
  ControlPlane() = default;
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;  // of the group

  void barrier();
  void all_reduce(std::span<double> data, ReduceOp reduce_op);
  void all_reduce(std::span<int64_t> data, ReduceOp reduce_op);
  void broadcast(std::span<std::byte> data, int root);
  // Gathers sizes[rank] bytes of each rank. On the root `out` has exactly the sum of the sizes and
  // gets the bytes in rank order; elsewhere it is empty.
  void gather(std::span<std::byte> out, std::span<const std::byte> in,
              std::span<const int64_t> sizes, int root);
  // Returns the root's text on all ranks.
  std::string broadcast_text(const std::string& text, int root);

 protected:
  virtual void run(Call& call) = 0;

 private:
  void check_root(const Call& call) const;
};

}  // namespace sextant
