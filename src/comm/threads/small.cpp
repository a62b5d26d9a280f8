#include "comm/threads/small.h"

#include "comm/reduce.h"

namespace sextant::threads {

Call call_of(uint64_t identity) {
  const auto take = [&](int bits) {
    const uint64_t field = identity & ((uint64_t{1} << bits) - 1);
    identity >>= bits;
    return field;
  };
  Call call;
  call.operation = static_cast<Operation>(take(kOperationBits) - 1);
  call.dtype = static_cast<DType>(take(kTypeBits));
  call.reduce_op = static_cast<ReduceOp>(take(kReduceOpBits));
  call.into = static_cast<Into>(take(kIntoBits));
  call.root = static_cast<int>(take(kRootBits));
  call.count = static_cast<int64_t>(identity);
  if (call.operation == Operation::AllToAll) call.received = call.count;
  return call;
}

void do_small(const Call& call, std::span<const std::byte*> posted, int rank) {
  const int64_t size = size_of(call.dtype);
  const auto ranks = static_cast<int>(posted.size());
  switch (call.operation) {
    case Operation::AllReduce:
      return reduce_into(call.out, posted, call.count, call.dtype, call.reduce_op);
    case Operation::ReduceScatter: {
      const Range own = even_part(call.count, ranks, rank);
      for (const std::byte*& input : posted) input += own.begin * size;
      return reduce_into(call.out, posted, own.size(), call.dtype, call.reduce_op, call.into);
    }
    case Operation::AllGather:
      for (int peer = 0; peer < ranks; ++peer) {
        const Range part = even_part(call.count, ranks, peer);
        copy_into(call.out + part.begin * size, posted[static_cast<size_t>(peer)],
                  part.size() * size);
      }
      return;
    case Operation::AllToAll: {
      const int64_t part = call.count / ranks * size;
      for (int peer = 0; peer < ranks; ++peer)
        copy_into(call.out + peer * part, posted[static_cast<size_t>(peer)] + rank * part, part);
      return;
    }
    default:
      return;
  }
}

}  // namespace sextant::threads
