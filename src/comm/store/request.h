#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/store/frame.h"

namespace sextant::store {

// One rank's call as the server gets it.
struct Request {
  // The group: `number` is the same on all ranks, and groups without a common rank may share it.
  int64_t number = 0;
  std::string group;             // name
  std::vector<int> world_ranks;  // of its members
  int rank = 0;                  // the caller's
  Operation operation = Operation::Barrier;
  DType dtype = DType::F32;
  ReduceOp reduce_op = ReduceOp::Sum;
  Moves moves = Moves::Data;
  int root = 0;  // or the other end of a message
  int64_t sequence = 0;
  uint64_t key = 0;  // agreement_key
  std::string text;  // of the call
  // Of an all-to-all: elements to and from each rank.
  std::vector<int64_t> sent, received;
  Bytes data;

  int size() const { return static_cast<int>(world_ranks.size()); }
};

Bytes encode(const Request& request);
Request decode_request(const Bytes& bytes);

// The result for each rank of a collective that all have made, by rank.
std::vector<Bytes> results_of(const std::vector<Request>& requests);

}  // namespace sextant::store
