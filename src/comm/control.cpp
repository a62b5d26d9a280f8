#include "comm/control.h"

#include "base/error.h"

namespace sextant {
namespace {

Call control_call(Operation operation, DType dtype, int64_t count) {
  Call call = call_of(operation, dtype, count);
  call.traffic = TrafficClass::Control;
  return call;
}

template <class T>
Call all_reduce_call(DType dtype, std::span<T> data, ReduceOp reduce_op) {
  Call call = control_call(Operation::AllReduce, dtype, static_cast<int64_t>(data.size()));
  call.reduce_op = reduce_op;
  call.out = std::as_writable_bytes(data).data();
  call.in = call.out;
  return call;
}

}  // namespace

void ControlPlane::check_root(const Call& call) const {
  SXT_CHECK(call.root >= 0 && call.root < size(), Usage, to_string(call), " over ", name(),
            ": ranks are 0 to ", size() - 1);
}

void ControlPlane::barrier() {
  Call call = control_call(Operation::Barrier, DType::I32, 0);
  run(call);
}

void ControlPlane::all_reduce(std::span<double> data, ReduceOp reduce_op) {
  Call call = all_reduce_call(DType::F64, data, reduce_op);
  run(call);
}

void ControlPlane::all_reduce(std::span<int64_t> data, ReduceOp reduce_op) {
  Call call = all_reduce_call(DType::I64, data, reduce_op);
  run(call);
}

// DType has no byte, so bytes are sent as a one-byte type.
void ControlPlane::broadcast(std::span<std::byte> data, int root) {
  Call call = control_call(Operation::Broadcast, DType::F8E4M3, static_cast<int64_t>(data.size()));
  call.root = root;
  call.out = data.data();
  check_root(call);
  run(call);
}

void ControlPlane::gather(std::span<std::byte> out, std::span<const std::byte> in,
                          std::span<const int64_t> sizes, int root) {
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  Call call = control_call(Operation::Gather, DType::F8E4M3, total);
  call.root = root;
  call.split_sizes = SplitSizes(sizes);
  call.in = in.data();
  call.out = out.data();
  check_root(call);
  SXT_CHECK(!sizes.empty(), Usage, "gather of the host over ", name(), ": no sizes for ", size(),
            " ranks");
  check_split(call, call.split_sizes, total, size(), name());
  const int64_t own = call.split_sizes.part(total, size(), rank()).size();
  SXT_CHECK(static_cast<int64_t>(in.size()) == own, Usage, to_string(call), " over ", name(),
            ", rank ", rank(), ": the input has ", in.size(), " bytes, not ", own);
  SXT_CHECK(static_cast<int64_t>(out.size()) == (rank() == root ? total : 0), Usage,
            to_string(call), " over ", name(), ", rank ", rank(), ": the output has ", out.size(),
            " bytes");
  run(call);
}

std::string ControlPlane::broadcast_text(const std::string& text, int root) {
  auto size = static_cast<int64_t>(rank() == root ? text.size() : 0);
  broadcast(std::as_writable_bytes(std::span(&size, 1)), root);
  std::string result = rank() == root ? text : std::string(static_cast<size_t>(size), '\0');
  broadcast(std::as_writable_bytes(std::span(result)), root);
  return result;
}

}  // namespace sextant
