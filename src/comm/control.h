#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "comm/call.h"

namespace sextant {

// Values of the host among the ranks of a group: counts, losses, digests, texts. A path of its own,
// so that a transport of device memory needs none. All ranks make the same calls in the same order;
// a call returns when it is done. Booked as control traffic.
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
  void all_reduce(std::span<double> data, Fold fold);
  void all_reduce(std::span<int64_t> data, Fold fold);
  void broadcast(std::span<std::byte> data, int root);
  // Each rank gives as many bytes as it likes; the root gets them one behind the other in `out`,
  // which has room for exactly that (elsewhere it is empty).
  void gather(std::span<std::byte> out, std::span<const std::byte> in,
              std::span<const int64_t> sizes, int root);
  // A text of the root, on all ranks.
  std::string broadcast_text(const std::string& text, int root);

 protected:
  virtual void run(Call& call) = 0;

 private:
  void check_root(const Call& call) const;
};

}  // namespace sextant
