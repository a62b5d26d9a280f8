#include "bench/doctor.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "base/parse.h"
#include "bench/machine.h"
#include "ops/matmul.h"
#include "ops/random_fill.h"
#include "tensor/copy.h"
#include "tensor/device.h"

namespace sextant {
namespace {

CheckUp processor() {
  if (!has_kernel_baseline())
    return {"processor", Health::Problem, "x86-64 without AVX2 and FMA",
            "run on a processor with AVX2 (2013 or later); the kernels are built for it"};
  return {"processor", Health::Ok, has_avx512() ? "with AVX-512" : "with what the kernels need",
          ""};
}

CheckUp speed() {
  const int cores = available_cores();
  return {"speed", Health::Ok,
          fmt::format("{} cores, {:.0f} GFLOP/s f32, {:.0f} GB/s copied", cores,
                      fma_peak(cores) / 1e9, copy_bandwidth(cores) / 1e9),
          ""};
}

CheckUp memory() {
  const int64_t bytes = physical_memory();
  const bool small = bytes < int64_t{2} << 30;
  return {"memory", small ? Health::Warning : Health::Ok, format_bytes(bytes),
          small ? "presets beyond gpt2-s will not fit" : ""};
}

CheckUp large_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string setting;
  std::getline(file, setting);
  const bool on = setting.find("[always]") != std::string::npos ||
                  setting.find("[madvise]") != std::string::npos;
  return {"large pages", on ? Health::Ok : Health::Warning,
          setting.empty() ? "not offered by this kernel" : setting,
          on ? "" : "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (a few per cent)"};
}

CheckUp gpu() {
  const GpuList list = list_gpus();
  if (list.gpus.empty()) return {"gpu", Health::Ok, "none: " + list.why_none, ""};
  CheckUp check{"gpu", Health::Ok, "", ""};
  for (const Gpu& gpu : list.gpus) {
    check.detail += fmt::format("{}{} ({}, sm_{}{})", check.detail.empty() ? "" : ", ", gpu.name,
                                format_bytes(gpu.memory), gpu.major, gpu.minor);
    if (gpu.problem.empty()) continue;
    check.status = Health::Problem;
    check.detail += ": " + gpu.problem;
    check.fix = "see that `nvidia-smi` works and the driver is new enough for this CUDA";
  }
  return check;
}

bool is_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  DiskStorage disk;
  for (const std::string& directory : split(path == nullptr ? "" : path, ':'))
    if (disk.exists(join_path(directory, program))) return true;
  return false;
}

CheckUp launchers() {
  std::string found;
  for (const char* program : {"mpirun", "srun", "torchrun"})
    if (is_on_path(program)) found += (found.empty() ? "" : ", ") + std::string(program);
  return {"launchers", Health::Ok,
          (found.empty() ? "none on PATH" : found) + "; this build trains on one rank", ""};
}

// A product of known matrices by the kernels, on all cores: the sum of each row is known.
CheckUp kernels() {
  const int64_t size = 128;
  const int cores = available_cores();
  Arena arena(Device{}, Stream::scratch_bytes(cores) + 3 * size * size * size_of(DType::F32));
  Stream stream(arena, cores);
  Tensor a = arena.allocate(Category::Workspace, DType::F32, {size, size});
  Tensor b = arena.allocate(Category::Workspace, DType::F32, {size, size});
  Tensor c = arena.allocate(Category::Workspace, DType::F32, {size, size});
  fill_constant(stream, a, 0.5);
  fill_constant(stream, b, 2);
  matmul(stream, c, a, Transpose::No, b, Transpose::Yes, {});
  std::vector<float> values(static_cast<size_t>(c.elements()));
  copy_to_host<float>(stream, values, c);
  for (const float value : values)
    if (value != static_cast<float>(size))
      return {"kernels", Health::Problem,
              fmt::format("a product of {} came out as {}", size, value),
              "this build does not fit this processor: build it here"};
  return {"kernels", Health::Ok, "a test product is right on all threads", ""};
}

CheckUp limits() {
  rlimit space{}, files{};
  ::getrlimit(RLIMIT_AS, &space);
  ::getrlimit(RLIMIT_NOFILE, &files);
  const bool bounded = space.rlim_cur != RLIM_INFINITY;
  return {"limits", bounded ? Health::Warning : Health::Ok,
          fmt::format("address space {}, {} open files",
                      bounded ? format_bytes(static_cast<int64_t>(space.rlim_cur)) : "unlimited",
                      files.rlim_cur),
          bounded ? "ulimit -v unlimited, or set run.memory_limit below half of it" : ""};
}

// Writes where `out` is, or would be made: the nearest directory above it that exists.
CheckUp output(Storage& storage, const std::string& out) {
  std::string directory = out;
  while (!storage.exists(directory) && parent_path(directory) != directory)
    directory = parent_path(directory);
  try {
    const std::string probe = join_path(directory, ".sextant-probe");
    replace_file(storage, probe, "x");
    storage.remove_all(probe);
    return {"output", Health::Ok, out + " can be written", ""};
  } catch (const Error& error) {
    return {"output", Health::Problem, error.what(), "choose another directory with run.out"};
  }
}

}  // namespace

std::vector<CheckUp> examine(Storage& storage, const std::string& out) {
  std::vector<CheckUp> checks = {processor()};
  if (checks.front().status == Health::Ok) {  // else these cannot run
    checks.push_back(kernels());
    checks.push_back(speed());
  }
  for (const CheckUp& check :
       {memory(), limits(), large_pages(), gpu(), launchers(), output(storage, out)})
    checks.push_back(check);
  return checks;
}

}  // namespace sextant
