#include "bench/kept_outside.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/gpu_facts.h"
#include "bench/kept_file.h"
#include "comm/nccl_world.h"
#include "comm/run_ranks.h"
#include "data/open_data.h"
#include "ops/matmul.h"
#include "ops/random_fill.h"
#include "tensor/gpu.h"
#include "train/trainer.h"
#include "train/world.h"

namespace sextant {
namespace {

using Json = nlohmann::json;

constexpr int kGpu = 0;
constexpr const char* kOutsideName = "outside";

// A model whose layers take the kernels of usual ones.
constexpr const char* kModel = R"(
[model]
layers = 1
heads = 12
hidden = 768
vocab = 1024
seq = 512
[batch]
global = 2
micro = 2
[data]
kind = "synthetic"
[run]
device = "cuda"
)";

int64_t in_use() {
  const gpu::Memory memory = gpu::memory_of(kGpu);
  return memory.total - memory.free;
}

// What was taken since `before`; what is freed meanwhile does not count.
int64_t more_than(int64_t before, int64_t now) {
  return std::max<int64_t>(0, now - before);
}

// Products of each type. Returns what is in use, without the arena.
int64_t use_cublas() {
  const int64_t size = 512;
  const int64_t bytes = Stream::scratch_bytes(Device{DeviceKind::Cuda, kGpu}, 1) +
                        8 * size * size * size_of(DType::F32);
  Arena arena(Device{DeviceKind::Cuda, kGpu}, bytes);
  Stream stream(arena, 1);
  for (const DType dtype : {DType::F32, DType::BF16})
    for (const Transpose transpose : {Transpose::No, Transpose::Yes}) {
      Tensor a = arena.allocate(Category::Workspace, dtype, {size, size});
      Tensor b = arena.allocate(Category::Workspace, dtype, {size, size});
      Tensor c = arena.allocate(Category::Workspace, dtype, {size, size});
      fill_constant(stream, a, 0.5);
      fill_constant(stream, b, 2);
      matmul(stream, c, a, Transpose::No, b, transpose, {});
    }
  stream.synchronize();
  return in_use() - arena.reserved();
}

// Two steps of the model. Returns what is in use, without the arena.
int64_t use_kernels(const char* compute, Storage& storage, const Clock& clock) {
  Log silent(LogLevel::Quiet, Color::Never);
  const std::vector<std::string> settings = {concat("precision.compute=", compute)};
  const Config config = parse_config(kModel, "doctor", settings).config;
  const Preflight flight = preflight(config, 0);
  const Loader data = open_data(config, storage, silent);
  int64_t bytes = 0;
  run_world(config, clock, nullptr, [&](Communicator& world) {
    Mesh mesh(world, mesh_shape(config.parallel));
    Trainer trainer(config, flight, mesh, data, storage, clock);
    for (int step = 0; step < 2; ++step) trainer.train_step();
    bytes = in_use() - trainer.arena().reserved();
  });
  return bytes;
}

// A communicator of one rank.
int64_t use_nccl(const Clock& clock) {
  int64_t bytes = 0;
  ThreadWorld(1, clock, {}).run([&](Communicator& host) {
    NcclOptions options;
    options.gpu = kGpu;
    NcclWorld world(host, options);
    world.world();
    bytes = in_use();
  });
  return bytes;
}

// All that a table depends on.
Json key_of(const GpuList& gpus) {
  return {{"format", "sextant-outside 1"}, {"gpu", gpus.gpus.at(kGpu).name},
          {"driver", gpus.driver},         {"runtime", gpus.runtime},
          {"cublas", cublas_version()},    {"cudnn", cudnn_version()},
          {"nccl", nccl_version()}};
}

}  // namespace

OutsideTable measure_outside(Storage& storage, const Clock& clock) {
  OutsideTable table;
  table.is_measured = true;
  table.context = in_use();
  const int64_t cublas = use_cublas();
  table.cublas = more_than(table.context, cublas);
  const int64_t wide = use_kernels("fp32", storage, clock);
  table.kernels = more_than(cublas, wide);
  const int64_t narrow = use_kernels("bf16", storage, clock);
  table.cudnn = more_than(wide, narrow);
  if (NcclWorld::why_unusable().empty()) {
    const int64_t before = in_use();
    table.nccl = more_than(before, use_nccl(clock));
  }
  return table;
}

std::optional<OutsideTable> kept_outside(Storage& storage, const std::string& directory,
                                         const GpuList& gpus) {
  if (gpus.gpus.empty()) return {};
  const std::optional<Json> kept = read_kept(storage, directory, kOutsideName, key_of(gpus));
  if (!kept) return {};
  const auto of = [&](const char* name) { return kept->at(name).get<int64_t>(); };
  return OutsideTable{of("context"), of("cublas"), of("cudnn"), of("nccl"), of("kernels"), true};
}

void keep_outside(Storage& storage, const std::string& directory, const GpuList& gpus,
                  const OutsideTable& table) {
  if (gpus.gpus.empty()) return;
  write_kept(storage, directory, kOutsideName, key_of(gpus),
             {{"context", table.context},
              {"kernels", table.kernels},
              {"cublas", table.cublas},
              {"cudnn", table.cudnn},
              {"nccl", table.nccl}});
}

}  // namespace sextant
