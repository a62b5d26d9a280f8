#include "comm/mpi/group.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/random.h"
#include "comm/mismatch.h"

namespace sextant::mpi {
namespace {

// What must be the same on all ranks of a collective, or on both ends of a message.
std::string agreed_part(const Call& call, const std::string& text) {
  if (is_message(call.operation)) return concat(call.count, ' ', name_of(call.dtype));
  if (call.operation == Operation::AllToAll)  // the sizes are compared pair by pair
    return concat(name_of(call.operation), ' ', name_of(call.dtype));
  return text;
}

}  // namespace

Header header_of(const Call& call) {
  const std::string text = to_string(call);
  Header header;
  header.sequence = call.sequence;
  header.key = stable_hash(agreed_part(call, text));
  std::memcpy(header.text, text.data(), std::min(text.size(), sizeof header.text - 1));
  return header;
}

void fail_late(const Group& group, const Call& call, const Requests& requests, const char* what) {
  const std::string ranks =
      list_ranks(requests.late(), [&](int rank) { return group.world(rank); });
  fail(group, call,
       concat("rank ", ranks, ' ', what, ' ', to_string(call), " within ",
              group.process.deadline_s(), " s; rank ", group.rank, " waits"));
}

void fail(const Group& group, const Call& call, const std::string& text) {
  const std::string all =
      concat("group ", group.name, is_message(call.operation) ? ", message " : ", call ",
             call.sequence, ": ", text);
  group.process.fail(all);
  throw Error(Fault::Peer, all);
}

}  // namespace sextant::mpi
