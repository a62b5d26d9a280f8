#pragma once
#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace sextant {

// Rows on their way between ranks, from the start of an exchange to its end.
struct RowsInFlight {
  // Elements by rank: sent, received, and those that each rank of etp has.
  std::vector<int64_t> sent, received, gathered;
  Tensor from, to;             // what is sent, and memory for what arrives
  Pending exchange, of_parts;  // between ranks of ep, and of etp

  void wait() {
    exchange.wait();
    of_parts.wait();
    from = Tensor();
  }
};

}  // namespace sextant
