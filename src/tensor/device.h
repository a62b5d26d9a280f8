#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// Where memory is allocated and operations run.
//   Cpu      this machine's memory
//   Guarded  the same, but accesses outside of an Access (stream.h) fault: code that would fail on
//            a GPU fails here. For tests.
//   Phantom  no memory and no compute (as PyTorch's meta device): operations check their arguments
//            and are recorded; tensors have addresses and sizes only: those of its target
//   Cuda     an NVIDIA GPU
enum class DeviceKind : uint8_t { Cpu, Guarded, Phantom, Cuda };

struct Device {
  DeviceKind kind = DeviceKind::Cpu;
  int index = 0;                        // among devices of this kind
  DeviceKind target = DeviceKind::Cpu;  // Phantom: the kind of device that it stands for
  friend bool operator==(const Device& a, const Device& b) = default;

  // The kind whose sizes and alignment hold here.
  DeviceKind modelled() const { return kind == DeviceKind::Phantom ? target : kind; }
  // All addresses of its tensors are multiples of this. On a GPU: what cudaMalloc gives, so that
  // vector loads, cuBLAS and cuDNN may assume it of every tensor.
  int64_t alignment() const { return modelled() == DeviceKind::Cuda ? 256 : 64; }
};

// The phantom device that stands for devices of this kind.
inline Device phantom_of(DeviceKind target) {
  return {DeviceKind::Phantom, 0, target};
}

// A range of memory. On the CPU its pages are allocated when first touched; on a GPU all of it is
// allocated at once, and Error(Memory) says how much is free when that fails. On a phantom device
// it is not mapped and must not be dereferenced.
class Region {
 public:
  Region(Device device, int64_t bytes);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Guarded regions only: allow access to the pages; forbid it again.
  void open();
  void close();

 private:
  void protect(int protection);

  Device device_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

int64_t physical_memory();  // bytes of RAM, or the container's limit if that is lower
int available_cores();      // cores this process may use

// Whether this processor has the instruction set of all CPU kernels (x86-64-v3: AVX2 and FMA;
// always true on other architectures), that of the wider variants of some (x86-64-v4: AVX-512), and
// AVX-512's products of bf16.
bool has_kernel_baseline();
bool has_avx512();
bool has_avx512_bf16();

// One GPU as reported by the CUDA runtime, after a self-test kernel.
struct Gpu {
  std::string name;
  int64_t memory = 0;        // bytes
  int64_t free = 0;          // bytes of them that nobody uses
  int major = 0, minor = 0;  // compute capability
  std::string problem;       // "" when the self-test kernel gave the right sum
};

// Empty without a GPU; `why_none` then gives the reason (no driver, built without CUDA).
struct GpuList {
  std::vector<Gpu> gpus;
  std::string why_none;
  std::string driver, runtime;  // versions of CUDA, such as "13.0"; "" if there is none
};
GpuList list_gpus();

}  // namespace sextant
