#pragma once
#include "comm/call.h"
#include "comm/nccl/connection.h"

namespace sextant::nccl {

// Issues this rank's part of a collective, on whose call all ranks agree, to the connection's
// queue.
void issue_collective(Connection& connection, const Call& call, SumOrder sums);

// Issues one end of a message. `peer`: in the connection.
void issue_message(Connection& connection, const Call& call, int peer);

}  // namespace sextant::nccl
