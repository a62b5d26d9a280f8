#include "tensor/host_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/parse.h"
#include "tensor/gpu.h"
#include "tensor/operation_times.h"

namespace sextant {
namespace {

constexpr uintptr_t kPhantomHostBase = uintptr_t{1} << 45;  // never mapped
constexpr int64_t kAlignment = 64;
// Offsets of host memory in traces, beyond those of any arena.
constexpr int64_t kTraceBase = int64_t{1} << 60;

// A file without a name, which ends with the process.
int open_unlinked(const std::string& directory) {
  const int file = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string name = directory + "/sextant-offload-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

TraceOperand host_operand(const Stream& stream, const HostArena& host, const Tensor& tensor,
                          bool is_written) {
  TraceOperand operand = stream.operand_of(tensor, is_written);
  operand.begin = kTraceBase + host.offset_of(tensor.raw());
  operand.end = operand.begin + tensor.bytes();
  return operand;
}

void check_same(const Tensor& to, const Tensor& from) {
  SXT_CHECK(to.dtype() == from.dtype() && to.elements() == from.elements(), Internal,
            "offload: ", name_of(from.dtype()), " ", from.shape(), " into ", name_of(to.dtype()),
            " ", to.shape());
}

HostCopy record(Stream& stream, const char* name, const TraceOperand& to, const TraceOperand& from,
                int64_t bytes) {
  TraceRecorder* recorder = stream.recorder();
  if (recorder == nullptr) return {};
  recorder->begin(name, recorder->lane({"copy"}));
  recorder->operand(to);
  recorder->operand(from);
  TraceOp& op = recorder->end();
  op.read = op.written = bytes;
  return {recorder->last(), nullptr};
}

void copy_now(Stream& stream, Tensor& to, const Tensor& from) {
  constexpr int64_t kGrain = int64_t{1} << 20;
  const Access access(stream);
  stream.team().for_pieces(from.bytes(), kGrain, [&](int64_t begin, int64_t end, int) {
    std::memcpy(to.raw() + begin, from.raw() + begin, static_cast<size_t>(end - begin));
  });
}

}  // namespace

// Copies in their order, and the ends of the last ones. An event that is recorded again marks a
// later copy, for which a wait is just as right.
struct HostArena::Gpu {
  explicit Gpu(int index) : queue(index), ready(index) {
    constexpr int kEnds = 64;
    for (int i = 0; i < kEnds; ++i) ends.push_back(std::make_unique<gpu::Event>(index));
  }
  gpu::Queue queue;
  gpu::Event ready;  // the stream's operations before the last copy
  std::vector<std::unique_ptr<gpu::Event>> ends;
  size_t next = 0;
};

// The copies of one host arena.
class HostCopying {
 public:
  static HostCopy copy(Stream& stream, const HostArena& host, HostCopy recorded, Tensor& to,
                       const Tensor& from) {
    if (stream.is_phantom()) return recorded;
    if (!stream.is_gpu()) {
      copy_now(stream, to, from);
      return recorded;
    }
    HostArena::Gpu& gpu = *host.gpu_;
    gpu.ready.record(stream.queue());
    gpu.queue.wait_for(gpu.ready);
    OperationTimes* times = recorded.op >= 0 ? stream.queue().times() : nullptr;
    if (times != nullptr) times->begin_in(gpu.queue);
    gpu.queue.copy(to.raw(), from.raw(), from.bytes());
    if (times != nullptr) times->end_in(gpu.queue, static_cast<uint32_t>(recorded.op));
    gpu::Event& end = *gpu.ends[gpu.next];
    gpu.next = (gpu.next + 1) % gpu.ends.size();
    end.record(gpu.queue);
    recorded.done = &end;
    return recorded;
  }
};

HostArena::HostArena(std::shared_ptr<const ArenaPlan> plan)
    : plan_(std::move(plan)),
      programs_(plan_ ? Programs(plan_) : Programs()),
      data_(reinterpret_cast<std::byte*>(kPhantomHostBase)) {}

HostArena::HostArena(const std::string& directory, std::shared_ptr<const ArenaPlan> plan)
    : plan_(std::move(plan)), programs_(plan_), mapped_(plan_->reserved) {
  SXT_CHECK(mapped_ > 0, Internal, "host memory of ", mapped_, " bytes");
  const int file = open_unlinked(directory);
  SXT_CHECK(file >= 0, Failure, "memory.offload: cannot make a file in ", directory, ": ",
            std::strerror(errno), "; memory.offload_dir names another directory");
  // All of it is allocated now: a page for which the disk is full later would end the process.
  const int problem = ::posix_fallocate(file, 0, mapped_);
  void* data = problem != 0 ? MAP_FAILED
                            : ::mmap(nullptr, static_cast<size_t>(mapped_), PROT_READ | PROT_WRITE,
                                     MAP_SHARED, file, 0);
  const int error = problem != 0 ? problem : errno;
  ::close(file);
  SXT_CHECK(data != MAP_FAILED, Failure, "memory.offload: cannot take ", format_bytes(mapped_),
            " in ", directory, ": ", std::strerror(error),
            "; memory.offload_dir names another directory");
  data_ = static_cast<std::byte*>(data);
}

HostArena::HostArena(int gpu, std::shared_ptr<const ArenaPlan> plan)
    : plan_(std::move(plan)), programs_(plan_), gpu_(std::make_unique<Gpu>(gpu)) {
  SXT_CHECK(plan_->reserved > 0, Internal, "host memory of ", plan_->reserved, " bytes");
  data_ = gpu::allocate_pinned(gpu, plan_->reserved);
}

// An error of the copies was thrown where it was met.
HostArena::~HostArena() {
  if (gpu_) {
    try {
      gpu_->queue.synchronize();
    } catch (const Error&) {
    }
    gpu::release_pinned(gpu_->queue.index(), data_);
  }
  if (mapped_ > 0) ::munmap(data_, static_cast<size_t>(mapped_));
}

Tensor HostArena::allocate(Category category, DType dtype, const Shape& shape) {
  const int64_t bytes = shape.elements() * size_of(dtype);
  const Programs::Place place = programs_.take(round_up(bytes, kAlignment));
  const auto index = static_cast<size_t>(category);
  current_[index] += bytes;
  peak_[index] = std::max(peak_[index], current_[index]);
  return Tensor(
      dtype, shape,
      std::shared_ptr<std::byte>(data_ + place.offset, [this, place, category, bytes](std::byte*) {
        release(place, category, bytes);
      }));
}

void HostArena::release(const Programs::Place& place, Category category, int64_t bytes) {
  current_[static_cast<size_t>(category)] -= bytes;
  programs_.give_back(place);
}

HostCopy copy_to_device(Stream& stream, const HostArena& host, Tensor& to, const Tensor& from) {
  check_same(to, from);
  const HostCopy recorded = record(stream, "fetch", stream.operand_of(to, true),
                                   host_operand(stream, host, from, false), from.bytes());
  return HostCopying::copy(stream, host, recorded, to, from);
}

HostCopy copy_to_host_arena(Stream& stream, const HostArena& host, Tensor& to, const Tensor& from) {
  check_same(to, from);
  const HostCopy recorded = record(stream, "store", host_operand(stream, host, to, true),
                                   stream.operand_of(from, false), from.bytes());
  return HostCopying::copy(stream, host, recorded, to, from);
}

void await_copy(Stream& stream, const HostCopy& copy) {
  if (copy.op >= 0 && stream.recorder() != nullptr)
    stream.recorder()->wait_for(static_cast<uint32_t>(copy.op));
  if (copy.done != nullptr) stream.queue().wait_for(*copy.done);
}

}  // namespace sextant
