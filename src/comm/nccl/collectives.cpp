// Data moves as bytes, by NCCL's own collectives where parts are equal and by grouped sends and
// receives otherwise. Reductions in rank order: each rank receives the slices that it reduces,
// piece by piece, into the staging memory of the connection and folds them by the kernels of all
// transports; a small one gathers all inputs on all ranks instead, which is one exchange less. What
// follows in the queue runs after it, so a piece may overwrite the staging memory of the last.
#include "comm/nccl/collectives.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "comm/gpu_work.h"

namespace sextant::nccl {
namespace {

constexpr int64_t kSmallReduction = int64_t{256} << 10;  // bytes of all ranks together
constexpr int64_t kAlign = 16;                           // of a slice in the staging memory

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return ncclFloat64;
    case DType::F32:
      return ncclFloat32;
    case DType::BF16:
      return ncclBfloat16;
    case DType::F16:
      return ncclFloat16;
    case DType::I32:
      return ncclInt32;
    case DType::I64:
      return ncclInt64;
    default:
      SXT_FAIL(Internal, "a reduction of ", name_of(dtype));
  }
}

// One rank's part of a collective.
class Issuing {
 public:
  Issuing(Connection& connection, const Call& call)
      : connection_(connection),
        call_(call),
        ranks_(connection.size()),
        own_(connection.own()),
        element_(size_of(call.dtype)) {}

  void reduce(SumOrder sums);
  void all_reduce(SumOrder sums);
  void reduce_scatter(SumOrder sums);
  void all_gather();
  void all_to_all();
  void broadcast();
  void scatter();
  void gather();

 private:
  // The calls of one group, which stop at the first that fails.
  class Group {
   public:
    Group(ncclComm_t handle, cudaStream_t stream) : handle_(handle), stream_(stream) {}
    void send(const std::byte* data, int64_t bytes, int peer) {
      if (bytes > 0 && is_well())
        code_ = library().send(data, static_cast<size_t>(bytes), ncclInt8, peer, handle_, stream_);
    }
    void receive(std::byte* data, int64_t bytes, int peer) {
      if (bytes > 0 && is_well())
        code_ =
            library().receive(data, static_cast<size_t>(bytes), ncclInt8, peer, handle_, stream_);
    }
    ncclResult_t code() const { return code_; }

   private:
    bool is_well() const { return code_ == ncclSuccess || code_ == ncclInProgress; }
    ncclComm_t handle_;
    cudaStream_t stream_;
    ncclResult_t code_ = ncclSuccess;
  };

  template <class F>
  void exchange(F&& f) {
    connection_.issue(text(), [&](ncclComm_t handle, cudaStream_t stream) {
      Group group(handle, stream);
      f(group);
      return group.code();
    });
  }
  template <class F>
  void issue(F&& f) {
    connection_.issue(text(), f);
  }
  // By rank, without a heap allocation: steps make none. The group has no more ranks.
  using Inputs = std::array<const std::byte*, kMostFolded>;
  std::string text() const { return name_of(call_.operation); }

  Range part(int rank) const { return call_.split_sizes.part(call_.count, ranks_, rank); }
  int64_t bytes(const Range& range) const { return range.size() * element_; }
  // Whether the parts are equal, as NCCL's collectives need them.
  bool is_regular() const { return call_.split_sizes.is_even() && call_.count % ranks_ == 0; }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) {
    if (to != from) connection_.queue().copy(to, from, bytes);
  }
  void fold(std::byte* out, std::span<const std::byte* const> in, int64_t count, Into into) {
    fold_on_gpu(connection_.queue(), out, in, count, call_.dtype, call_.reduce_op, into);
  }

  bool is_small() const { return ranks_ * call_.count * element_ <= kSmallReduction; }
  void gather_and_fold(std::byte* out, const Range& wanted, Into into);
  void exchange_and_fold(std::byte* out, std::span<const Range> shares, Into into);
  void spread_parts();
  std::vector<Range> parts() const {
    std::vector<Range> all;
    for (int rank = 0; rank < ranks_; ++rank) all.push_back(part(rank));
    return all;
  }

  Connection& connection_;
  const Call& call_;
  const int ranks_, own_;
  const int64_t element_;
};

// out = the reduction of the wanted elements; all ranks gather all inputs.
void Issuing::gather_and_fold(std::byte* out, const Range& wanted, Into into) {
  const int64_t slice = call_.count * element_;
  if (slice == 0) return;
  issue([&](ncclComm_t handle, cudaStream_t stream) {
    return library().all_gather(call_.in, connection_.staging(), static_cast<size_t>(slice),
                                ncclInt8, handle, stream);
  });
  Inputs inputs;
  for (int rank = 0; rank < ranks_; ++rank)
    inputs[static_cast<size_t>(rank)] =
        connection_.staging() + rank * slice + wanted.begin * element_;
  if (wanted.size() > 0)
    fold(out, std::span(inputs).first(static_cast<size_t>(ranks_)), wanted.size(), into);
}

// out = this rank's share, reduced over `in` of all ranks.
//   shares: of the elements, by rank
void Issuing::exchange_and_fold(std::byte* out, std::span<const Range> shares, Into into) {
  const int64_t slot = kNcclStaging / std::max(1, ranks_ - 1) / kAlign * kAlign;
  const int64_t piece = slot / element_;
  const Range own = shares[static_cast<size_t>(own_)];
  int64_t longest = 0;
  for (const Range& share : shares) longest = std::max(longest, share.size());
  for (int64_t step = 0; step * piece < longest; ++step) {
    const auto chunk = [&](const Range& share) {
      const int64_t begin = std::min(share.end, share.begin + step * piece);
      return Range{begin, std::min(share.end, begin + piece)};
    };
    const auto place = [&](int peer) {
      return connection_.staging() + (peer < own_ ? peer : peer - 1) * slot;
    };
    const Range mine = chunk(own);
    exchange([&](Group& group) {
      for (int peer = 0; peer < ranks_; ++peer) {
        if (peer == own_) continue;
        const Range theirs = chunk(shares[static_cast<size_t>(peer)]);
        group.send(call_.in + theirs.begin * element_, bytes(theirs), peer);
        group.receive(place(peer), bytes(mine), peer);
      }
    });
    if (mine.size() == 0) continue;
    Inputs inputs;
    for (int rank = 0; rank < ranks_; ++rank)
      inputs[static_cast<size_t>(rank)] =
          rank == own_ ? call_.in + mine.begin * element_ : place(rank);
    fold(out + (mine.begin - own.begin) * element_,
         std::span(inputs).first(static_cast<size_t>(ranks_)), mine.size(), into);
  }
}

// All-gather of the parts; this rank's own part is in `out` already.
void Issuing::spread_parts() {
  const Range own = part(own_);
  std::byte* from = call_.out + own.begin * element_;
  if (is_regular())
    return issue([&](ncclComm_t handle, cudaStream_t stream) {
      return library().all_gather(from, call_.out, static_cast<size_t>(bytes(own)), ncclInt8,
                                  handle, stream);
    });
  exchange([&](Group& group) {
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer == own_) continue;
      group.send(from, bytes(own), peer);
      group.receive(call_.out + part(peer).begin * element_, bytes(part(peer)), peer);
    }
  });
}

// Maxima and minima are those of the fold in any case: NCCL does not promise that NaN wins.
void Issuing::all_reduce(SumOrder sums) {
  if (call_.count == 0) return;
  if (sums == SumOrder::Library && call_.reduce_op == ReduceOp::Sum)
    return issue([&](ncclComm_t handle, cudaStream_t stream) {
      return library().all_reduce(call_.in, call_.out, static_cast<size_t>(call_.count),
                                  type_of(call_.dtype), ncclSum, handle, stream);
    });
  if (is_small()) return gather_and_fold(call_.out, {0, call_.count}, Into::Replace);
  exchange_and_fold(call_.out + part(own_).begin * element_, parts(), Into::Replace);
  spread_parts();
}

void Issuing::reduce_scatter(SumOrder sums) {
  if (call_.count == 0) return;
  const bool is_plain =
      call_.reduce_op == ReduceOp::Sum && call_.into == Into::Replace && is_regular();
  if (sums == SumOrder::Library && is_plain)
    return issue([&](ncclComm_t handle, cudaStream_t stream) {
      return library().reduce_scatter(call_.in, call_.out,
                                      static_cast<size_t>(call_.count / ranks_),
                                      type_of(call_.dtype), ncclSum, handle, stream);
    });
  if (is_small()) return gather_and_fold(call_.out, part(own_), call_.into);
  exchange_and_fold(call_.out, parts(), call_.into);
}

// The root reduces the whole vector, the others nothing.
void Issuing::reduce(SumOrder sums) {
  if (call_.count == 0) return;
  if (sums == SumOrder::Library && call_.reduce_op == ReduceOp::Sum)
    return issue([&](ncclComm_t handle, cudaStream_t stream) {
      return library().reduce(call_.in, own_ == call_.root ? call_.out : nullptr,
                              static_cast<size_t>(call_.count), type_of(call_.dtype), ncclSum,
                              call_.root, handle, stream);
    });
  std::vector<Range> shares(static_cast<size_t>(ranks_));
  shares[static_cast<size_t>(call_.root)] = {0, call_.count};
  exchange_and_fold(call_.out, shares, Into::Replace);
}

void Issuing::all_gather() {
  if (call_.count == 0) return;
  const Range own = part(own_);
  copy(call_.out + own.begin * element_, call_.in, bytes(own));
  spread_parts();
}

void Issuing::all_to_all() {
  const auto received = [&](int rank) {
    return call_.receive_split_sizes.part(call_.received, ranks_, rank);
  };
  copy(call_.out + received(own_).begin * element_, call_.in + part(own_).begin * element_,
       bytes(part(own_)));
  exchange([&](Group& group) {
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer == own_) continue;
      group.send(call_.in + part(peer).begin * element_, bytes(part(peer)), peer);
      group.receive(call_.out + received(peer).begin * element_, bytes(received(peer)), peer);
    }
  });
}

void Issuing::broadcast() {
  if (call_.count == 0) return;
  issue([&](ncclComm_t handle, cudaStream_t stream) {
    return library().broadcast(call_.out, call_.out, static_cast<size_t>(call_.count * element_),
                               ncclInt8, call_.root, handle, stream);
  });
}

void Issuing::scatter() {
  const bool is_root = own_ == call_.root;
  if (is_root) copy(call_.out, call_.in + part(own_).begin * element_, bytes(part(own_)));
  exchange([&](Group& group) {
    if (!is_root) return group.receive(call_.out, bytes(part(own_)), call_.root);
    for (int peer = 0; peer < ranks_; ++peer)
      if (peer != own_) group.send(call_.in + part(peer).begin * element_, bytes(part(peer)), peer);
  });
}

void Issuing::gather() {
  const bool is_root = own_ == call_.root;
  if (is_root) copy(call_.out + part(own_).begin * element_, call_.in, bytes(part(own_)));
  exchange([&](Group& group) {
    if (!is_root) return group.send(call_.in, bytes(part(own_)), call_.root);
    for (int peer = 0; peer < ranks_; ++peer)
      if (peer != own_)
        group.receive(call_.out + part(peer).begin * element_, bytes(part(peer)), peer);
  });
}

}  // namespace

void issue_collective(Connection& connection, const Call& call, SumOrder sums) {
  Issuing issuing(connection, call);
  switch (call.operation) {
    case Operation::AllReduce:
      return issuing.all_reduce(sums);
    case Operation::ReduceScatter:
      return issuing.reduce_scatter(sums);
    case Operation::AllGather:
      return issuing.all_gather();
    case Operation::AllToAll:
      return issuing.all_to_all();
    case Operation::Broadcast:
      return issuing.broadcast();
    case Operation::Scatter:
      return issuing.scatter();
    case Operation::Gather:
      return issuing.gather();
    case Operation::Reduce:
      return issuing.reduce(sums);
    case Operation::Barrier:
      return;
    case Operation::Send:
    case Operation::Receive:
      break;
  }
  SXT_FAIL(Internal, to_string(call), " is no collective");
}

void issue_message(Connection& connection, const Call& call, int peer) {
  const int64_t bytes = call.count * size_of(call.dtype);
  if (bytes == 0) return;
  connection.issue(name_of(call.operation), [&](ncclComm_t handle, cudaStream_t stream) {
    const auto count = static_cast<size_t>(bytes);
    return call.operation == Operation::Send
               ? library().send(call.in, count, ncclInt8, peer, handle, stream)
               : library().receive(call.out, count, ncclInt8, peer, handle, stream);
  });
}

}  // namespace sextant::nccl
