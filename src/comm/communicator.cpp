#include "comm/communicator.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tensor/gpu.h"

namespace sextant {
namespace {

// An empty tensor has no shape to count.
int64_t elements_of(const Tensor& tensor) {
  return tensor ? tensor.elements() : 0;
}

void check_reducible(const Call& call) {
  SXT_CHECK(call.dtype != DType::F8E4M3 && call.dtype != DType::F8E5M2, Usage, to_string(call),
            ": this type cannot be reduced; f64 f32 bf16 f16 i32 i64 can");
}

void check_type(const Call& call, const Tensor& tensor) {
  SXT_CHECK(!tensor || tensor.dtype() == call.dtype, Usage, to_string(call),
            ": the other tensor is ", name_of(tensor.dtype()));
}

}  // namespace

Communicator::Communicator(int rank, int size, std::string name, Ledger& ledger)
    : rank_(rank),
      size_(size),
      name_(std::move(name)),
      ledger_(ledger),
      axis_(ledger.traffic.axis("world")),
      sent_(static_cast<size_t>(size)),
      received_(static_cast<size_t>(size)) {
  name_.copy(short_name_.data(), short_name_.size() - 1);
}

[[gnu::always_inline]] inline void Communicator::check_root(const Call& call) const {
  SXT_CHECK(call.root >= 0 && call.root < size_, Usage, to_string(call), " over ", name_,
            ": ranks are 0 to ", size_ - 1);
}

void Communicator::check_size(const Call& call, const char* what, const Tensor& tensor,
                              int64_t elements) const {
  SXT_CHECK(elements_of(tensor) == elements, Usage, to_string(call), " over ", name_, ", rank ",
            rank_, ": ", what, " has ", elements_of(tensor), " elements, not ", elements);
}

Pending Communicator::all_reduce(Stream& stream, Tensor& data, ReduceOp reduce_op, When when,
                                 TrafficClass traffic) {
  Call call = call_of(Operation::AllReduce, data.dtype(), elements_of(data));
  call.reduce_op = reduce_op;
  call.traffic = traffic;
  call.in = data.raw();
  call.out = data.raw();
  check_reducible(call);
  return begin(stream, call, data, Tensor(), when);
}

Pending Communicator::reduce_scatter(Stream& stream, Tensor& out, const Tensor& in,
                                     ReduceOp reduce_op, When when, Into into,
                                     const SplitSizes& split_sizes) {
  Call call = call_of(Operation::ReduceScatter, in.dtype(), elements_of(in));
  call.reduce_op = reduce_op;
  call.into = into;
  call.in = in.raw();
  call.out = out.raw();
  call.split_sizes = split_sizes;
  check_reducible(call);
  check_type(call, out);
  check_split(call, split_sizes, call.count);
  const Range part = split_sizes.part(call.count, size_, rank_);
  check_size(call, "the output", out, part.size());
  SXT_CHECK(into == Into::Replace || out.raw() != in.raw() + part.begin * size_of(call.dtype),
            Usage, to_string(call), " over ", name_, ": cannot add to its own input");
  return begin(stream, call, in, out, when);
}

Pending Communicator::all_gather(Stream& stream, Tensor& out, const Tensor& in, When when,
                                 const SplitSizes& split_sizes) {
  Call call = call_of(Operation::AllGather, out.dtype(), elements_of(out));
  call.in = in.raw();
  call.out = out.raw();
  call.split_sizes = split_sizes;
  check_type(call, in);
  check_split(call, split_sizes, call.count);
  check_size(call, "the input", in, split_sizes.part(call.count, size_, rank_).size());
  return begin(stream, call, in, out, when);
}

Pending Communicator::all_to_all(Stream& stream, Tensor& out, const Tensor& in, When when,
                                 const SplitSizes& send, const SplitSizes& receive) {
  Call call = call_of(Operation::AllToAll, in.dtype(), elements_of(in));
  call.in = in.raw();
  call.out = out.raw();
  call.received = elements_of(out);
  call.split_sizes = send;
  call.receive_split_sizes = receive;
  check_type(call, out);
  check_split(call, send, call.count);
  check_split(call, receive, call.received);
  SXT_CHECK(call.in + in.bytes() <= call.out || call.out + out.bytes() <= call.in, Usage,
            to_string(call), " over ", name_, ": input and output share memory");
  return begin(stream, call, in, out, when);
}

Pending Communicator::broadcast(Stream& stream, Tensor& data, int root, When when) {
  Call call = call_of(Operation::Broadcast, data.dtype(), elements_of(data));
  call.root = root;
  call.out = data.raw();
  check_root(call);
  return begin(stream, call, data, Tensor(), when);
}

Pending Communicator::scatter(Stream& stream, Tensor& out, const Tensor& in, int64_t total,
                              int root, When when, const SplitSizes& split_sizes) {
  Call call = call_of(Operation::Scatter, out.dtype(), total);
  call.root = root;
  call.split_sizes = split_sizes;
  call.out = out.raw();
  check_root(call);
  check_split(call, split_sizes, total);
  check_size(call, "the output", out, split_sizes.part(total, size_, rank_).size());
  if (rank_ != root) return begin(stream, call, Tensor(), out, when);
  call.in = in.raw();
  check_type(call, in);
  check_size(call, "the input", in, total);
  return begin(stream, call, in, out, when);
}

Pending Communicator::gather(Stream& stream, Tensor& out, const Tensor& in, int64_t total, int root,
                             When when, const SplitSizes& split_sizes) {
  Call call = call_of(Operation::Gather, in.dtype(), total);
  call.root = root;
  call.split_sizes = split_sizes;
  call.in = in.raw();
  check_root(call);
  check_split(call, split_sizes, total);
  check_size(call, "the input", in, split_sizes.part(total, size_, rank_).size());
  if (rank_ != root) return begin(stream, call, in, Tensor(), when);
  call.out = out.raw();
  check_type(call, out);
  check_size(call, "the output", out, total);
  return begin(stream, call, in, out, when);
}

Pending Communicator::reduce(Stream& stream, Tensor& data, ReduceOp reduce_op, int root,
                             When when) {
  Call call = call_of(Operation::Reduce, data.dtype(), elements_of(data));
  call.reduce_op = reduce_op;
  call.root = root;
  call.in = data.raw();
  if (rank_ == root) call.out = data.raw();
  check_root(call);
  check_reducible(call);
  return begin(stream, call, data, Tensor(), when);
}

Pending Communicator::send(Stream& stream, const Tensor& data, int to, When when) {
  Call call = call_of(Operation::Send, data.dtype(), elements_of(data));
  call.root = to;
  call.in = data.raw();
  check_root(call);
  SXT_CHECK(to != rank_, Usage, to_string(call), " over ", name_, ": that is the sender itself");
  return begin(stream, call, data, Tensor(), when);
}

Pending Communicator::receive(Stream& stream, Tensor& data, int from, When when) {
  Call call = call_of(Operation::Receive, data.dtype(), elements_of(data));
  call.root = from;
  call.out = data.raw();
  check_root(call);
  SXT_CHECK(from != rank_, Usage, to_string(call), " over ", name_,
            ": that is the receiver itself");
  return begin(stream, call, data, Tensor(), when);
}

void Communicator::record(gpu::Graph& graph, Stream&, FunctionRef<void()> f) {
  graph.record(f);
}

void Communicator::launch(gpu::Graph& graph, Stream&) {
  graph.launch();
}

void Communicator::meet(const Call& call, std::byte* note) {
  Call meeting = call;
  meeting.moves = Moves::Nothing;
  meeting.stream = nullptr;
  meeting.in = meeting.out = note;
  execute(meeting);
}

std::unique_ptr<Communicator> Communicator::subgroup(std::span<const int> ranks,
                                                     const std::string& name,
                                                     std::string_view axis) {
  const auto own = std::ranges::find(ranks, rank_);
  SXT_CHECK(own != ranks.end(), Usage, "rank ", rank_, " of ", name_, " is not in its group ",
            name);
  for (const int peer : ranks)
    SXT_CHECK(peer >= 0 && peer < size_, Usage, "rank ", peer, " in group ", name, ": ", name_,
              " has ranks 0 to ", size_ - 1);
  std::unique_ptr<Communicator> made =
      make_subgroup(ranks, static_cast<int>(own - ranks.begin()), name);
  if (made->size() > 1) {
    ++ledger_.groups.groups;
    ledger_.groups.peers += made->size() - 1;
  }
  made->axis_ = axis.empty() ? axis_ : ledger_.traffic.axis(axis);
  return made;
}

std::unique_ptr<Communicator> duplicate(Communicator& group, const std::string& name) {
  return group.subgroup(ranks_where(group.size(), [](int) { return true; }), name);
}

}  // namespace sextant
