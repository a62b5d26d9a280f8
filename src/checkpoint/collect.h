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

// How rank 0 gathers the tensors that it writes. The other ranks follow its orders one at a time
// until Done or Fail. Rank 0 can thus report a failure to all ranks at any point, and send Wait
// while it works alone, so that they do not time out.
enum class Order : int64_t {
  Give,  // send the elements of the asks
  Wait,  // for the next order
  Done,  // the save succeeded; the report follows
  Fail,  // the save failed; the reason follows
};

// Gathers the parts of all ranks on rank 0; elsewhere the result is empty. Collective.
std::vector<Part> exchange_parts(Communicator& world, const std::vector<NamedTensor>& tensors);

// Rank 0's side. The arguments must outlive it.
class Collector {
 public:
  Collector(Communicator& world, const std::vector<NamedTensor>& tensors, Stream& stream)
      : world_(world), tensors_(tensors), stream_(stream) {}

  // Passes all bytes of the tensor to `sink` in order, in pieces of at most kPassBytes.
  void produce(const JoinedTensor& tensor, const ByteSink& sink);
  void tell_to_wait();
  void tell_done(SaveReport& report);
  // Does not throw, as the first error is the one to report.
  void tell_failure(Fault fault, const std::string& reason) noexcept;

 private:
  std::span<const std::byte> collect(const std::vector<Ask>& asks, int64_t element_bytes);

  Communicator& world_;
  const std::vector<NamedTensor>& tensors_;
  Stream& stream_;
  std::vector<std::byte> buffer_;
};

// The side of the other ranks: follows orders until Done or Fail. Throws rank 0's error on Fail.
SaveReport follow_orders(Communicator& world, const std::vector<NamedTensor>& tensors,
                         Stream& stream);

}  // namespace sextant
