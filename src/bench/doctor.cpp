#include "bench/doctor.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>

#include "base/error.h"
#include "base/parse.h"
#include "bench/gpu_facts.h"
#include "bench/kept_file.h"
#include "bench/kept_outside.h"
#include "bench/kept_peak.h"
#include "bench/machine.h"
#include "bench/mpi_peer.h"
#include "comm/nccl_world.h"
#include "comm/run_ranks.h"
#include "ops/attention_library.h"
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
  const char* const found = has_avx512_bf16() ? "with AVX-512 and its products of bf16"
                            : has_avx512()    ? "with AVX-512"
                                              : "with what the kernels need";
  return {"processor", Health::Ok, found, ""};
}

// Measures anew what runs take from the user's cache directory.
CheckUp speed(Storage& storage) {
  const int cores = available_cores();
  Log silent(LogLevel::Quiet, Color::Never);
  const auto peak = [&](DType operands) {
    return measure_fma_peak(storage, cache_directory(), cores, operands, silent) / 1e9;
  };
  const std::string bf16 = has_avx512_bf16() ? fmt::format(", {:.0f} bf16", peak(DType::BF16)) : "";
  return {"speed", Health::Ok,
          fmt::format("{} cores, {:.0f} GFLOP/s f32{}, {:.0f} GB/s copied", cores, peak(DType::F32),
                      bf16, copy_bandwidth(cores) / 1e9),
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

CheckUp gpus_found(const GpuList& list) {
  if (list.gpus.empty()) return {"gpu", Health::Ok, list.why_none, ""};
  CheckUp check{"gpu", Health::Ok, "", ""};
  for (const Gpu& gpu : list.gpus) {
    check.detail +=
        fmt::format("{}{} ({}, {} free, sm_{}{})", check.detail.empty() ? "" : ", ", gpu.name,
                    format_bytes(gpu.memory), format_bytes(gpu.free), gpu.major, gpu.minor);
    if (gpu.problem.empty()) continue;
    check.status = Health::Problem;
    check.detail += ": " + gpu.problem;
    check.fix = "see that `nvidia-smi` works and the driver is new enough for this CUDA";
  }
  return check;
}

CheckUp driver(const GpuList& list) {
  if (list.runtime.empty()) return {"cuda", Health::Ok, "not built in: runs are on the CPU", ""};
  const std::string built = "built with CUDA " + list.runtime;
  if (list.driver.empty())
    return {"cuda", Health::Ok, built + ", no driver: runs are on the CPU, dry runs for GPUs work",
            ""};
  return {"cuda", Health::Ok, fmt::format("{}, driver for CUDA {}", built, list.driver), ""};
}

// A library that runs on GPUs use; without a GPU its absence is no problem.
CheckUp library(const GpuList& list, const char* name, const std::string& version,
                const std::string& cost, const std::string& package) {
  if (!version.empty()) return {name, Health::Ok, version, ""};
  return {name, list.gpus.empty() ? Health::Ok : Health::Warning, "not found: " + cost,
          list.gpus.empty() ? "" : "apt-get install " + package};
}

// The same for one that may be there for a build that cannot use it, for the reason `why`.
CheckUp library_of_build(const GpuList& list, const char* name, const std::string& version,
                         const std::string& why, const std::string& cost,
                         const std::string& package) {
  CheckUp found = library(list, name, why.empty() ? version : "", cost, package);
  if (!why.empty()) found.detail += "; " + why;
  return found;
}

// Measures anew what dry runs take from the user's cache directory. Before anything else uses the
// libraries of the GPU.
CheckUp outside(Storage& storage, const Clock& clock, const GpuList& gpus) {
  if (gpus.gpus.empty())
    return {"outside", Health::Ok, "device memory beside the arenas: measured on a GPU only", ""};
  try {
    const OutsideTable table = measure_outside(storage, clock);
    keep_outside(storage, cache_directory(), gpus, table);
    return {"outside", Health::Ok,
            fmt::format("device memory beside the arenas: context {}, kernels {}, cuBLAS {}, cuDNN "
                        "{}, NCCL {} (a group {}, a peer {}, messages {})",
                        format_bytes(table.context), format_bytes(table.kernels),
                        format_bytes(table.cublas), format_bytes(table.cudnn),
                        format_bytes(table.nccl), format_bytes(table.nccl_group),
                        format_bytes(table.nccl_peer), format_bytes(table.nccl_channel)),
            ""};
  } catch (const Error& error) {
    return {"outside", Health::Warning,
            concat("device memory beside the arenas is not measured: ", error.what()),
            "see that nobody else uses the GPU; dry runs assume it meanwhile"};
  }
}

CheckUp launchers() {
  std::string found;
  for (const char* program : {"mpirun", "srun", "torchrun"})
    if (is_on_path(program)) found += (found.empty() ? "" : ", ") + std::string(program);
  return {"launchers", Health::Ok, found.empty() ? "none on PATH" : found, ""};
}

// All-reduce over two ranks of this process: result and time.
CheckUp ranks(const Clock& clock) {
  constexpr int kRanks = 2, kPasses = 200;
  constexpr int64_t kElements = 1024;
  constexpr double kDeadline = 10;  // seconds
  double seconds = 0;
  float wrong = kRanks;
  try {
    ThreadWorld world(kRanks, clock, {.timeout_s = kDeadline});
    world.run([&](Communicator& rank) {
      Arena arena(Device{}, Stream::scratch_bytes(1) + kElements * size_of(DType::F32));
      Stream stream(arena, 1);
      Tensor data = arena.allocate(Category::Communication, DType::F32, {kElements});
      std::vector<float> values(kElements);
      double begin = 0;
      for (int i = 0; i <= kPasses; ++i) {
        if (i == 1) begin = clock.now();  // the first one wakes the threads
        fill_constant(stream, data, 1);
        rank.all_reduce(stream, data, ReduceOp::Sum);
      }
      const double end = clock.now();
      copy_to_host<float>(stream, values, data);
      if (rank.rank() != 0) return;
      seconds = (end - begin) / kPasses;
      for (const float value : values)
        if (value != kRanks) wrong = value;
    });
  } catch (const Error& error) {
    return {
        "ranks", Health::Problem, error.what(),
        "two threads could not meet: see that this process may use its cores (taskset, cgroup)"};
  }
  if (wrong != kRanks)
    return {"ranks", Health::Problem, fmt::format("1 + 1 over two ranks came out as {}", wrong),
            "this build does not fit this processor: build it here"};
  return {"ranks", Health::Ok,
          fmt::format("a sum over 2 ranks (threads) is right, {:.1f} us", 1e6 * seconds), ""};
}

// The same over two processes started by mpirun.
CheckUp mpi(const std::string& program) {
  constexpr double kDeadline = 20;  // seconds
  const std::string library = mpi_library();
  if (library.empty())
    return {"mpi", Health::Ok, "not built in: ranks are threads of one process",
            "for several hosts: apt-get install libopenmpi-dev openmpi-bin, then build again"};
  if (!is_on_path("mpirun"))
    return {"mpi", Health::Warning, library + ", but mpirun is not on PATH",
            "apt-get install openmpi-bin, or add its directory to PATH"};
  try {
    const std::vector<double> seconds =
        run_mpi_peer(program, 2, {{Operation::AllReduce, 4096}}, Turns{.repeats = 1}, kDeadline);
    return {"mpi", Health::Ok,
            fmt::format("{}: a sum over 2 processes is right, {:.1f} us", library,
                        1e6 * seconds.front()),
            ""};
  } catch (const Error& error) {
    return {"mpi", Health::Warning, library + ": " + error.what(),
            "try `mpirun --oversubscribe -n 2 hostname`; run.transport=threads works without it"};
  }
}

// A GEMM of known matrices on all cores: the sum of each row is known.
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

// Writes to `out`, or to the nearest existing directory above it.
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

std::vector<CheckUp> examine(Storage& storage, const Clock& clock, const std::string& out,
                             const std::string& program) {
  std::vector<CheckUp> checks = {processor()};
  if (checks.front().status == Health::Ok) {  // otherwise these cannot run
    checks.push_back(kernels());
    checks.push_back(speed(storage));
    checks.push_back(ranks(clock));
  }
  const GpuList gpus = list_gpus();
  const CheckUp beside = outside(storage, clock, gpus);
  for (const CheckUp& check :
       {memory(), limits(), large_pages(), gpus_found(gpus), driver(gpus), beside,
        library(gpus, "cublas", cublas_version(), "GPUs cannot be used", "libcublas-13-0"),
        library_of_build(
            gpus, "cudnn", cudnn_version(), cudnn::why_unusable(),
            "attention on GPUs uses Sextant's own kernel, which is slower in bf16 and fp16",
            "libcudnn9-cuda-13 libcudnn9-dev-cuda-13"),
        library_of_build(gpus, "nccl", nccl_version(), NcclWorld::why_unusable(),
                         "ranks can share one GPU, but not use several", "libnccl2 libnccl-dev"),
        launchers(), mpi(program), output(storage, out)})
    checks.push_back(check);
  return checks;
}

}  // namespace sextant
