#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/parts.h"
#include "checkpoint/save.h"
#include "comm/communicator.h"
#include "tensor/stream.h"

namespace sextant {

// How rank 0 gets at the tensors that it writes. The other ranks wait for its orders and follow
// them, one after the other, until it says that the save is over: so it may fail at any point and
// all of them learn of it at once, and while it is busy without them it tells them to wait on.
enum class Order : int64_t {
  Give,  // what the asks say
  Wait,  // for the next order
  Done,  // the report follows
  Fail,  // the reason follows
};

// All parts of all ranks, on rank 0; elsewhere nothing. Collective.
std::vector<Part> exchange_parts(Communicator& world, const std::vector<NamedTensor>& tensors);

// The side of rank 0. What is given must outlive it.
class Collector {
 public:
  // Without a world all parts are this rank's own.
  Collector(Communicator* world, const std::vector<NamedTensor>& tensors, Stream& stream)
      : world_(world), tensors_(tensors), stream_(stream) {}

  // All bytes of the tensor in order, in pieces of at most kPassBytes.
  void produce(const JoinedTensor& tensor, const ByteSink& sink);
  void tell_to_wait();
  void tell_done(SaveReport& report);
  // Never throws: what went wrong first is what counts.
  void tell_failure(Fault fault, const std::string& reason) noexcept;

 private:
  std::span<const std::byte> collect(const std::vector<Ask>& asks, int64_t element_bytes);

  Communicator* world_;
  const std::vector<NamedTensor>& tensors_;
  Stream& stream_;
  std::vector<std::byte> buffer_;
};

// The side of the others: follows orders until the save is over. Throws the error of rank 0 when
// that fails.
SaveReport follow_orders(Communicator& world, const std::vector<NamedTensor>& tensors,
                         Stream& stream);

}  // namespace sextant
