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

int64_t in_use(int gpu = kGpu) {
  const gpu::Memory memory = gpu::memory_of(gpu);
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

// How many ranks can be had for a look at NCCL: two on GPUs of their own, or on one that NCCL lets
// them share.
int ranks_for_nccl() {
  const bool can_share = may_share_gpus() && NcclWorld::version() >= kFirstNcclThatShares;
  return gpu::count() > 1 || can_share ? 2 : 1;
}

// Looks at what a rank takes on its GPU for what it uses of NCCL. Collective.
class NcclLook {
 public:
  NcclLook(Communicator& host, Device device, int ranks_on_gpu)
      : host_(host),
        ranks_on_gpu_(ranks_on_gpu),
        arena_(device, Stream::scratch_bytes(device, 1) + 3 * host.size() * kBytes),
        stream_(arena_, 1),
        own_(make()),
        all_(make()) {
    fill_constant(stream_, own_, 1);
    begin();
  }

  // The world, a further group, another rank to exchange with, and messages to and from it, each
  // once it has been used.
  OutsideTable look(const NcclOptions& options) {
    OutsideTable found;
    NcclWorld nccl(host_, options);
    Communicator& world = nccl.world();
    gather(world);
    found.nccl = end(1);
    if (world.size() > 1) look_at_groups(found, world);
    stream_.queue().check_after_waits(nullptr);  // the stream outlives this world
    return found;
  }

 private:
  void look_at_groups(OutsideTable& found, Communicator& world) {
    found.nccl = std::max<int64_t>(0, found.nccl - kNcclStaging);
    std::vector<std::unique_ptr<Communicator>> groups;
    for (const char* name : {"one", "two"}) {
      groups.push_back(duplicate(world, name));
      gather(*groups.back());
    }
    const auto count = static_cast<int64_t>(groups.size());
    found.nccl_group = std::max<int64_t>(0, end(count) - kNcclStaging);
    for (const auto& group : groups) group->all_to_all(stream_, all_, own_);
    found.nccl_peer = end(count);
    Pending sent = world.send(stream_, own_, 1 - world.rank(), When::Later);
    world.receive(stream_, all_, 1 - world.rank());
    sent.wait();
    found.nccl_channel = end(2);
  }

  static constexpr int64_t kElements = int64_t{1} << 20, kBytes = 4 * kElements;

  Tensor make() {
    return arena_.allocate(Category::Workspace, DType::F32, {kElements * host_.size()});
  }
  void gather(Communicator& group) { group.all_gather(stream_, all_, own_.slice(0, kElements)); }
  void begin() {
    stream_.synchronize();
    host_.control().barrier();
    before_ = in_use(arena_.device().index);
    host_.control().barrier();
  }
  // What was taken since the last look for each of `parts`, which every rank of the GPU has.
  int64_t end(int64_t parts) {
    const int64_t before = before_;
    begin();
    return more_than(before, before_) / (parts * ranks_on_gpu_);
  }

  Communicator& host_;
  int64_t ranks_on_gpu_, before_ = 0;
  Arena arena_;
  Stream stream_;
  Tensor own_, all_;
};

void use_nccl(OutsideTable& table, const Clock& clock) {
  const int ranks = ranks_for_nccl(), on_gpu = gpu::count() > 1 ? 1 : ranks;
  ThreadWorld(ranks, clock, {}).run([&](Communicator& host) {
    NcclOptions options;
    options.gpu = on_gpu == ranks ? kGpu : host.rank();
    if (on_gpu > 1) options.sharing = GpuSharing::Allowed;
    NcclLook look(host, {DeviceKind::Cuda, options.gpu}, on_gpu);
    const OutsideTable found = look.look(options);
    if (host.rank() != 0) return;
    table.nccl = found.nccl;
    table.nccl_group = found.nccl_group;
    table.nccl_peer = found.nccl_peer;
    table.nccl_channel = found.nccl_channel;
  });
}

// All that a table depends on.
Json key_of(const GpuList& gpus) {
  return {{"format", "sextant-outside 2"}, {"gpu", gpus.gpus.at(kGpu).name},
          {"driver", gpus.driver},         {"runtime", gpus.runtime},
          {"cublas", cublas_version()},    {"cudnn", cudnn_version()},
          {"nccl", nccl_version()}};
}

}  // namespace

OutsideTable measure_outside(Storage& storage, const Clock& clock) {
  Config shares;
  shares.run.transport = Transport::Nccl;
  if (may_share_gpus() && NcclWorld::why_unusable().empty()) prepare_nccl(shares);
  OutsideTable table;
  table.is_measured = true;
  table.context = in_use();
  const int64_t cublas = use_cublas();
  table.cublas = more_than(table.context, cublas);
  const int64_t wide = use_kernels("fp32", storage, clock);
  table.kernels = more_than(cublas, wide);
  const int64_t narrow = use_kernels("bf16", storage, clock);
  table.cudnn = more_than(wide, narrow);
  if (NcclWorld::why_unusable().empty()) use_nccl(table, clock);
  return table;
}

std::optional<OutsideTable> kept_outside(Storage& storage, const std::string& directory,
                                         const GpuList& gpus) {
  if (gpus.gpus.empty()) return {};
  const std::optional<Json> kept = read_kept(storage, directory, kOutsideName, key_of(gpus));
  if (!kept) return {};
  const auto of = [&](const char* name) { return kept->at(name).get<int64_t>(); };
  return OutsideTable{.context = of("context"),
                      .cublas = of("cublas"),
                      .cudnn = of("cudnn"),
                      .nccl = of("nccl"),
                      .nccl_group = of("nccl_group"),
                      .nccl_peer = of("nccl_peer"),
                      .nccl_channel = of("nccl_channel"),
                      .kernels = of("kernels"),
                      .is_measured = true};
}

void keep_outside(Storage& storage, const std::string& directory, const GpuList& gpus,
                  const OutsideTable& table) {
  if (gpus.gpus.empty()) return;
  write_kept(storage, directory, kOutsideName, key_of(gpus),
             {{"context", table.context},
              {"kernels", table.kernels},
              {"cublas", table.cublas},
              {"cudnn", table.cudnn},
              {"nccl", table.nccl},
              {"nccl_group", table.nccl_group},
              {"nccl_peer", table.nccl_peer},
              {"nccl_channel", table.nccl_channel}});
}

}  // namespace sextant
