#include "comm/store/communicator.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "comm/mismatch.h"

namespace sextant::store {

StoreCommunicator::StoreCommunicator(Client& client, GroupNumbers& numbers, Ledger& ledger,
                                     std::string name, std::vector<int> world_ranks, int rank,
                                     int64_t number)
    : Communicator(rank, static_cast<int>(world_ranks.size()), std::move(name), ledger),
      client_(client),
      numbers_(numbers),
      world_ranks_(std::move(world_ranks)),
      number_(number) {}

// The new groups get a number that no rank of the parent has used yet. Groups made by one call have
// no rank in common, so they can have the same number.
std::unique_ptr<Communicator> StoreCommunicator::make_subgroup(std::span<const int> ranks, int own,
                                                               const std::string& name) {
  int64_t number = numbers_.next;
  control().all_reduce(std::span(&number, 1), ReduceOp::Max);
  numbers_.next = number + 1;
  std::vector<int> world_ranks;
  for (const int peer : ranks) world_ranks.push_back(world_rank(peer));
  return std::make_unique<StoreCommunicator>(client_, numbers_, ledger(), name,
                                             std::move(world_ranks), own, number);
}

Request StoreCommunicator::request_of(const Call& call) const {
  Request request;
  request.number = number_;
  request.group = name();
  request.world_ranks = world_ranks_;
  request.rank = rank();
  request.operation = call.operation;
  request.dtype = call.dtype;
  request.reduce_op = call.reduce_op;
  request.moves = call.moves;
  request.root = has_root(call.operation) ? call.root : 0;
  request.sequence = call.sequence;
  request.key = agreement_key(call);
  request.text = to_string(call);
  if (call.operation == Operation::AllToAll)
    for (int peer = 0; peer < size(); ++peer) {
      request.sent.push_back(call.split_sizes.part(call.count, size(), peer).size());
      request.received.push_back(call.receive_split_sizes.part(call.received, size(), peer).size());
    }
  const auto give = [&](const std::byte* from, int64_t bytes) {
    if (bytes > 0) request.data.assign(from, from + bytes);
  };
  if (call.operation == Operation::Send) give(call.in, message_bytes(call));
  if (call.moves == Moves::Nothing) return request;
  const int64_t element = size_of(call.dtype);
  if (call.operation == Operation::AllReduce) give(call.in, call.count * element);
  if (call.operation == Operation::Broadcast && rank() == call.root)
    give(call.out, call.count * element);
  if (call.operation == Operation::Gather)
    give(call.in, call.split_sizes.part(call.count, size(), rank()).size() * element);
  return request;
}

namespace {

bool is_control(const Call& call) {
  return call.operation == Operation::AllReduce || call.operation == Operation::Broadcast ||
         call.operation == Operation::Gather || call.operation == Operation::Barrier;
}

}  // namespace

void StoreCommunicator::execute(const Call& call) {
  SXT_CHECK(call.moves == Moves::Nothing || (is_control(call) && call.stream == nullptr), Internal,
            to_string(call), " over ", name(), ": the store moves no tensors");
  const Bytes answer = client_.call(request_of(call));
  if (call.out == nullptr || answer.empty()) return;
  std::memcpy(call.out, answer.data(), answer.size());
}

int64_t StoreCommunicator::start(const Call& call) {
  SXT_FAIL(Internal, to_string(call), " over ", name(), ": the store moves no tensors");
}

void StoreCommunicator::finish(int64_t) {}

}  // namespace sextant::store
