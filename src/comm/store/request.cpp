#include "comm/store/request.h"

#include "base/error.h"
#include "comm/reduce.h"

namespace sextant::store {

Bytes encode(const Request& request) {
  Writer writer;
  writer.add(request.number).add_list(request.group).add_list(request.world_ranks);
  writer.add(request.rank).add(request.operation).add(request.dtype).add(request.reduce_op);
  writer.add(request.moves).add(request.root).add(request.sequence).add(request.key);
  writer.add_list(request.text).add_list(request.sent).add_list(request.received);
  return writer.add_list(request.data).bytes();
}

Request decode_request(const Bytes& bytes) {
  Reader reader(bytes);
  Request request;
  request.number = reader.take<int64_t>();
  request.group = reader.take_list<std::string>();
  request.world_ranks = reader.take_list<std::vector<int>>();
  request.rank = reader.take<int>();
  request.operation = reader.take<Operation>();
  request.dtype = reader.take<DType>();
  request.reduce_op = reader.take<ReduceOp>();
  request.moves = reader.take<Moves>();
  request.root = reader.take<int>();
  request.sequence = reader.take<int64_t>();
  request.key = reader.take<uint64_t>();
  request.text = reader.take_list<std::string>();
  request.sent = reader.take_list<std::vector<int64_t>>();
  request.received = reader.take_list<std::vector<int64_t>>();
  request.data = reader.take_list<Bytes>();
  SXT_CHECK(request.rank >= 0 && request.rank < request.size() && request.root >= 0 &&
                request.root < request.size(),
            Peer, "the store got a call of a rank that its group does not have");
  return request;
}

namespace {

Bytes reduced(const std::vector<Request>& requests) {
  const Request& first = requests.front();
  Bytes result(first.data.size());
  std::vector<const std::byte*> inputs;
  for (const Request& request : requests) inputs.push_back(request.data.data());
  const auto count = static_cast<int64_t>(result.size()) / size_of(first.dtype);
  if (count > 0) reduce_into(result.data(), inputs, count, first.dtype, first.reduce_op);
  return result;
}

}  // namespace

std::vector<Bytes> results_of(const std::vector<Request>& requests) {
  const Request& first = requests.front();
  const auto root = static_cast<size_t>(first.root);
  std::vector<Bytes> results(requests.size());
  if (first.moves == Moves::Nothing) return results;
  switch (first.operation) {
    case Operation::AllReduce:
      results.assign(requests.size(), reduced(requests));
      break;
    case Operation::Broadcast:
      for (size_t rank = 0; rank < results.size(); ++rank)
        if (rank != root) results[rank] = requests[root].data;
      break;
    case Operation::Gather:
      for (const Request& request : requests)
        results[root].insert(results[root].end(), request.data.begin(), request.data.end());
      break;
    default:
      break;
  }
  return results;
}

}  // namespace sextant::store
