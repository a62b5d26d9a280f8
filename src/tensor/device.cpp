#include "tensor/device.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/parse.h"
#include "tensor/gpu.h"

namespace sextant {
namespace {

// Any non-null multiple of the alignment; never mapped.
constexpr uintptr_t kPhantomBase = uintptr_t{1} << 46;

}  // namespace

Region::Region(Device device, int64_t bytes) : device_(device), bytes_(bytes) {
  SXT_CHECK(bytes > 0, Usage, "a region of ", bytes, " bytes cannot be reserved");
  if (device.kind == DeviceKind::Phantom) {
    data_ = reinterpret_cast<std::byte*>(kPhantomBase);
    return;
  }
  if (device.kind == DeviceKind::Cuda) {
    data_ = gpu::allocate(device.index, bytes);
    return;
  }
  const int protection = device.kind == DeviceKind::Guarded ? PROT_NONE : PROT_READ | PROT_WRITE;
  void* data = ::mmap(nullptr, static_cast<size_t>(bytes), protection,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SXT_CHECK(data != MAP_FAILED, Memory, "cannot reserve ", format_bytes(bytes),
            " of address space: ", std::strerror(errno));
  data_ = static_cast<std::byte*>(data);
  // Huge pages: fewer page faults in the first step, fewer TLB misses in strided kernels. Failure
  // only costs speed.
  (void)::madvise(data_, static_cast<size_t>(bytes), MADV_HUGEPAGE);
}

Region::~Region() {
  if (device_.kind == DeviceKind::Phantom) return;
  if (device_.kind == DeviceKind::Cuda)
    gpu::release(device_.index, data_);
  else
    ::munmap(data_, static_cast<size_t>(bytes_));
}

void Region::open() {
  protect(PROT_READ | PROT_WRITE);
}

void Region::close() {
  protect(PROT_NONE);
}

void Region::protect(int protection) {
  const int done = ::mprotect(data_, static_cast<size_t>(bytes_), protection);
  SXT_CHECK(done == 0, Internal, "mprotect failed: ", std::strerror(errno));
}

int64_t physical_memory() {
  int64_t bytes = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    int64_t limit = 0;
    if (file >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

#if defined(__x86_64__)
bool has_kernel_baseline() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512cd");
}

bool has_avx512_bf16() {
  return has_avx512() && __builtin_cpu_supports("avx512bf16");
}
#else
bool has_kernel_baseline() {
  return true;
}

bool has_avx512() {
  return false;
}

bool has_avx512_bf16() {
  return false;
}
#endif

}  // namespace sextant
