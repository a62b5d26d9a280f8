#include "tensor/stream.h"

#include <algorithm>
#include <utility>

#include "tensor/gpu.h"
#include "tensor/operation_times.h"

namespace sextant {

// What a stream has on a GPU only.
struct Stream::Gpu {
  explicit Gpu(int index) : queue(index), staging(queue) {}
  gpu::Queue queue;
  gpu::Staging staging;
  DeviceFault fault;  // as last read
};

namespace {

// Null where operations are not timed.
OperationTimes* times_of(Stream& stream) {
  return stream.is_gpu() ? stream.queue().times() : nullptr;
}

bool has_team(Device device) {
  return device.kind == DeviceKind::Cpu || device.kind == DeviceKind::Guarded;
}

}  // namespace

Stream::Stream(Arena& arena, int threads)
    : arena_(arena),
      threads_(threads),
      team_(has_team(arena.device()) ? threads : 1),
      scratch_(arena.allocate(Category::Workspace, DType::F8E4M3,
                              {scratch_bytes(arena.device(), threads)})) {
  if (arena.device().kind == DeviceKind::Cuda) {
    gpu_ = std::make_unique<Gpu>(arena.device().index);
    gpu_->queue.fill_zero(scratch_.raw() + kCudaScratch, kFaultBytes);
    return;
  }
  SXT_CHECK(has_kernel_baseline(), Failure,
            "this processor has no AVX2 and FMA, which the kernels are built for (x86-64-v3)");
}

Stream::~Stream() = default;

gpu::Queue& Stream::queue() {
  SXT_CHECK(gpu_, Internal, "a stream that is not on a GPU has no queue");
  return gpu_->queue;
}

gpu::Staging& Stream::staging() {
  SXT_CHECK(gpu_, Internal, "a stream that is not on a GPU has no staging");
  return gpu_->staging;
}

DeviceFault* Stream::device_fault() {
  SXT_CHECK(gpu_, Internal, "a stream that is not on a GPU keeps its data fault on the host");
  return reinterpret_cast<DeviceFault*>(scratch_.raw() + kCudaScratch);
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

void Stream::synchronize() {
  if (!gpu_) return;
  gpu_->staging.download_later(std::as_writable_bytes(std::span(&gpu_->fault, 1)),
                               reinterpret_cast<const std::byte*>(device_fault()));
  gpu_->queue.synchronize();
  gpu_->staging.deliver();
  if (gpu_->fault.message != 0) report(fault_from(gpu_->fault));
}

void Stream::check_data() {
  synchronize();
  if (!data_fault_) return;
  if (gpu_) gpu_->queue.fill_zero(scratch_.raw() + kCudaScratch, kFaultBytes);
  const DataFault fault = *std::exchange(data_fault_, {});
  throw Error(fault.fault, to_string(fault));
}

std::span<std::byte> Stream::thread_scratch(int thread) {
  SXT_CHECK(!gpu_, Internal, "a GPU has no scratch memory of threads");
  return {scratch_.raw() + kSharedScratch + thread * kThreadScratch, kThreadScratch};
}

std::span<std::byte> Stream::shared_scratch() {
  return {scratch_.raw(), static_cast<size_t>(gpu_ ? kCudaScratch : kSharedScratch)};
}

Access::Access(Stream& stream) : stream_(stream) {
  if (stream.device().kind == DeviceKind::Guarded && stream.open_++ == 0)
    stream.arena().region().open();
  OperationTimes* times = times_of(stream);
  if (times == nullptr || stream.recorder() == nullptr) return;
  if (!stream.recorder()->trace().ops.empty()) times->begin(*this, stream.recorder()->last());
}

Access::~Access() {
  if (OperationTimes* times = times_of(stream_)) times->end(*this);
  if (stream_.device().kind == DeviceKind::Guarded && --stream_.open_ == 0)
    stream_.arena().region().close();
}

}  // namespace sextant
