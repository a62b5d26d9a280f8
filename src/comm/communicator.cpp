#include "comm/communicator.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace sextant {
namespace {

Call call_of(Operation operation, DType dtype, int64_t count) {
  Call call;
  call.operation = operation;
  call.dtype = dtype;
  call.count = count;
  return call;
}

// An empty tensor has no shape, so it is asked for memory first.
int64_t elements_of(const Tensor& tensor) {
  return tensor ? tensor.elements() : 0;
}

void check_folds(const Call& call) {
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
      sent_(static_cast<size_t>(size)),
      received_(static_cast<size_t>(size)) {
  name_.copy(short_name_.data(), short_name_.size() - 1);
}

void Communicator::check_cut(const Call& call, const Cut& cut, int64_t total) const {
  if (cut.is_even()) return;
  SXT_CHECK(static_cast<int>(cut.sizes().size()) == size_, Usage, to_string(call), " over ", name_,
            ": ", cut.sizes().size(), " parts for ", size_, " ranks");
  int64_t sum = 0;
  for (const int64_t size : cut.sizes()) {
    SXT_CHECK(size >= 0, Usage, to_string(call), " over ", name_, ": a part of ", size);
    sum += size;
  }
  SXT_CHECK(sum == total, Usage, to_string(call), " over ", name_, ": the parts have ", sum,
            " elements, not ", total);
}

void Communicator::check_root(const Call& call) const {
  SXT_CHECK(call.root >= 0 && call.root < size_, Usage, to_string(call), " over ", name_,
            ": ranks are 0 to ", size_ - 1);
}

void Communicator::check_size(const Call& call, const char* what, const Tensor& tensor,
                              int64_t elements) const {
  SXT_CHECK(elements_of(tensor) == elements, Usage, to_string(call), " over ", name_, ", rank ",
            rank_, ": ", what, " has ", elements_of(tensor), " elements, not ", elements);
}

Pending Communicator::all_reduce(Stream& stream, Tensor& data, Fold fold, When when, Book book) {
  Call call = call_of(Operation::AllReduce, data.dtype(), elements_of(data));
  call.fold = fold;
  call.book = book;
  call.in = data.raw();
  call.out = data.raw();
  check_folds(call);
  return begin(stream, call, data, Tensor(), when);
}

Pending Communicator::reduce_scatter(Stream& stream, Tensor& out, const Tensor& in, Fold fold,
                                     When when, Into into, const Cut& cut) {
  Call call = call_of(Operation::ReduceScatter, in.dtype(), elements_of(in));
  call.fold = fold;
  call.into = into;
  call.in = in.raw();
  call.out = out.raw();
  call.cut = cut;
  check_folds(call);
  check_type(call, out);
  check_cut(call, cut, call.count);
  const Share part = cut.part(call.count, size_, rank_);
  check_size(call, "the output", out, part.size());
  SXT_CHECK(into == Into::Replace || out.raw() != in.raw() + part.begin * size_of(call.dtype),
            Usage, to_string(call), " over ", name_, ": cannot add to its own input");
  return begin(stream, call, in, out, when);
}

Pending Communicator::all_gather(Stream& stream, Tensor& out, const Tensor& in, When when,
                                 const Cut& cut) {
  Call call = call_of(Operation::AllGather, out.dtype(), elements_of(out));
  call.in = in.raw();
  call.out = out.raw();
  call.cut = cut;
  check_type(call, in);
  check_cut(call, cut, call.count);
  check_size(call, "the input", in, cut.part(call.count, size_, rank_).size());
  return begin(stream, call, in, out, when);
}

Pending Communicator::all_to_all(Stream& stream, Tensor& out, const Tensor& in, When when,
                                 const Cut& send, const Cut& receive) {
  Call call = call_of(Operation::AllToAll, in.dtype(), elements_of(in));
  call.in = in.raw();
  call.out = out.raw();
  call.received = elements_of(out);
  call.cut = send;
  call.receive_cut = receive;
  check_type(call, out);
  check_cut(call, send, call.count);
  check_cut(call, receive, call.received);
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
                              int root, When when, const Cut& cut) {
  Call call = call_of(Operation::Scatter, out.dtype(), total);
  call.root = root;
  call.cut = cut;
  call.out = out.raw();
  check_root(call);
  check_cut(call, cut, total);
  check_size(call, "the output", out, cut.part(total, size_, rank_).size());
  if (rank_ != root) return begin(stream, call, Tensor(), out, when);
  call.in = in.raw();
  check_type(call, in);
  check_size(call, "the input", in, total);
  return begin(stream, call, in, out, when);
}

Pending Communicator::gather(Stream& stream, Tensor& out, const Tensor& in, int64_t total, int root,
                             When when, const Cut& cut) {
  Call call = call_of(Operation::Gather, in.dtype(), total);
  call.root = root;
  call.cut = cut;
  call.in = in.raw();
  check_root(call);
  check_cut(call, cut, total);
  check_size(call, "the input", in, cut.part(total, size_, rank_).size());
  if (rank_ != root) return begin(stream, call, in, Tensor(), when);
  call.out = out.raw();
  check_type(call, out);
  check_size(call, "the output", out, total);
  return begin(stream, call, in, out, when);
}

Pending Communicator::reduce(Stream& stream, Tensor& data, Fold fold, int root, When when) {
  Call call = call_of(Operation::Reduce, data.dtype(), elements_of(data));
  call.fold = fold;
  call.root = root;
  call.in = data.raw();
  if (rank_ == root) call.out = data.raw();
  check_root(call);
  check_folds(call);
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

std::unique_ptr<Communicator> copy_of(Communicator& group, const std::string& name) {
  return group.subgroup(ranks_where(group.size(), [](int) { return true; }), name);
}

void Communicator::barrier() {
  Call call = call_of(Operation::Barrier, DType::I32, 0);
  run_host(call);
}

void Communicator::all_reduce_host(std::span<double> data, Fold fold) {
  Call call = call_of(Operation::AllReduce, DType::F64, static_cast<int64_t>(data.size()));
  call.fold = fold;
  call.out = std::as_writable_bytes(data).data();
  call.in = call.out;
  run_host(call);
}

void Communicator::all_reduce_host(std::span<int64_t> data, Fold fold) {
  Call call = call_of(Operation::AllReduce, DType::I64, static_cast<int64_t>(data.size()));
  call.fold = fold;
  call.out = std::as_writable_bytes(data).data();
  call.in = call.out;
  run_host(call);
}

// Bytes travel under the name of a type that has one.
void Communicator::broadcast_host(std::span<std::byte> data, int root) {
  Call call = call_of(Operation::Broadcast, DType::F8E4M3, static_cast<int64_t>(data.size()));
  call.root = root;
  call.out = data.data();
  check_root(call);
  run_host(call);
}

void Communicator::gather_host(std::span<std::byte> out, std::span<const std::byte> in,
                               std::span<const int64_t> sizes, int root) {
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  Call call = call_of(Operation::Gather, DType::F8E4M3, total);
  call.root = root;
  call.cut = Cut(sizes);
  call.in = in.data();
  call.out = out.data();
  check_root(call);
  SXT_CHECK(!sizes.empty(), Usage, "gather_host over ", name_, ": no sizes for ", size_, " ranks");
  check_cut(call, call.cut, total);
  const int64_t own = call.cut.part(total, size_, rank_).size();
  SXT_CHECK(static_cast<int64_t>(in.size()) == own, Usage, to_string(call), " over ", name_,
            ", rank ", rank_, ": the input has ", in.size(), " bytes, not ", own);
  SXT_CHECK(static_cast<int64_t>(out.size()) == (rank_ == root ? total : 0), Usage, to_string(call),
            " over ", name_, ", rank ", rank_, ": the output has ", out.size(), " bytes");
  run_host(call);
}

std::string Communicator::broadcast_text(const std::string& text, int root) {
  auto size = static_cast<int64_t>(rank_ == root ? text.size() : 0);
  broadcast_host(std::as_writable_bytes(std::span(&size, 1)), root);
  std::string result = rank_ == root ? text : std::string(static_cast<size_t>(size), '\0');
  broadcast_host(std::as_writable_bytes(std::span(result)), root);
  return result;
}

}  // namespace sextant
