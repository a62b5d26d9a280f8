#include "tensor/stream.h"

#include <algorithm>
#include <utility>

namespace sextant {

Stream::Stream(Arena& arena, int threads)
    : arena_(arena),
      threads_(threads),
      team_(arena.device().kind == DeviceKind::Phantom ? 1 : threads),
      scratch_(arena.allocate(Category::Workspace, DType::F8E4M3, {scratch_bytes(threads)})) {
  SXT_CHECK(has_kernel_baseline(), Failure,
            "this processor has no AVX2 and FMA, which the kernels are built for (x86-64-v3)");
}

TraceOperand Stream::operand_of(const Tensor& tensor, bool is_written) const {
  TraceOperand operand;
  operand.begin = arena_.offset_of(tensor.raw());
  operand.end = operand.begin + tensor.bytes();
  operand.dims = static_cast<uint8_t>(tensor.shape().dims());
  std::ranges::copy(tensor.shape().sizes(), operand.shape.begin());
  operand.dtype = tensor.dtype();
  operand.is_written = is_written;
  return operand;
}

void Stream::record(const Work& work) {
  TraceRecorder& recorder = *this->recorder();
  recorder.begin(work.name(), Trace::kCompute);
  int64_t read = 0, written = 0;
  for (const Work::Operand& operand : work.operands()) {
    recorder.operand(operand_of(operand.tensor, operand.is_written));
    (operand.is_written ? written : read) += operand.bytes;
  }
  TraceOp& op = recorder.end();
  op.flops = work.flops();
  op.read = read;
  op.written = written;
}

void Stream::report(const DataFault& fault) {
  if (!data_fault_) data_fault_ = fault;
}

void Stream::check_data() {
  if (!data_fault_) return;
  const DataFault fault = *std::exchange(data_fault_, {});
  throw Error(fault.fault, to_string(fault));
}

std::span<std::byte> Stream::thread_scratch(int thread) {
  return {scratch_.raw() + kSharedScratch + thread * kThreadScratch, kThreadScratch};
}

std::span<std::byte> Stream::shared_scratch() {
  return {scratch_.raw(), kSharedScratch};
}

Access::Access(Stream& stream) : stream_(stream) {
  if (stream.device().kind == DeviceKind::Guarded && stream.open_++ == 0)
    stream.arena().region().open();
}

Access::~Access() {
  if (stream_.device().kind == DeviceKind::Guarded && --stream_.open_ == 0)
    stream_.arena().region().close();
}

}  // namespace sextant
