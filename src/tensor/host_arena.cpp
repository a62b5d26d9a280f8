#include "tensor/host_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/parse.h"

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
  return {recorder->last()};
}

void copy_now(Stream& stream, Tensor& to, const Tensor& from) {
  if (stream.is_phantom()) return;
  constexpr int64_t kGrain = int64_t{1} << 20;
  const Access access(stream);
  stream.team().for_pieces(from.bytes(), kGrain, [&](int64_t begin, int64_t end, int) {
    std::memcpy(to.raw() + begin, from.raw() + begin, static_cast<size_t>(end - begin));
  });
}

}  // namespace

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

HostArena::~HostArena() {
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
  copy_now(stream, to, from);
  return record(stream, "fetch", stream.operand_of(to, true),
                host_operand(stream, host, from, false), from.bytes());
}

HostCopy copy_to_host_arena(Stream& stream, const HostArena& host, Tensor& to, const Tensor& from) {
  check_same(to, from);
  copy_now(stream, to, from);
  return record(stream, "store", host_operand(stream, host, to, true),
                stream.operand_of(from, false), from.bytes());
}

void await_copy(Stream& stream, const HostCopy& copy) {
  if (copy.op >= 0) stream.recorder()->wait_for(static_cast<uint32_t>(copy.op));
}

}  // namespace sextant
