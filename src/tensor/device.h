#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// Where memory lies and operations run.
//   Cpu      this machine's memory
//   Guarded  the same, but its pages cannot be touched outside of an Access (stream.h): code that
//            would fail on a GPU fails here. For tests.
//   Phantom  no memory and no work: operations check their arguments and are recorded, memory has
//            addresses and sizes alone and reads as zeros. It imitates the CPU's sizes.
enum class DeviceKind : uint8_t { Cpu, Guarded, Phantom };

struct Device {
  DeviceKind kind = DeviceKind::Cpu;
  int index = 0;  // among the devices of a kind
  friend bool operator==(const Device& a, const Device& b) = default;
};

// A range of address space whose pages become real when first touched; never on a phantom device,
// whose addresses nobody may follow.
class Region {
 public:
  Region(Device device, int64_t bytes);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Guarded regions only: lets the pages be touched; no longer.
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

// Instruction sets of this processor: what every CPU kernel is built for (x86-64-v3: AVX2 and FMA;
// always true elsewhere), and what some have a wider form for (x86-64-v4: AVX-512).
bool has_kernel_baseline();
bool has_avx512();

// One GPU as the CUDA runtime sees it, after a kernel ran on it.
struct Gpu {
  std::string name;
  int64_t memory = 0;        // bytes
  int major = 0, minor = 0;  // compute capability
  std::string problem;       // "" when the self-test kernel gave the right sum
};

// Empty without a GPU; `why_none` then says what was missing (no driver, built without CUDA).
struct GpuList {
  std::vector<Gpu> gpus;
  std::string why_none;
};
GpuList list_gpus();

}  // namespace sextant
